//! Where the thread of a test runs. Which CPUs are near an HCA is read elsewhere.

use std::io;
use std::mem::MaybeUninit;

use crate::error::VerbsError;

/// CPUs that a thread may run on, as it was found; put back when it is dropped.
pub struct Placement {
    before: libc::cpu_set_t,
}

impl Placement {
    /// Lets the calling thread run on these CPUs alone. Memory that it touches first then comes from their NUMA node.
    ///
    /// # Errors
    /// sched_setaffinity: EINVAL where none of them may be used, as by the container's cpuset.
    pub fn pin(cpus: &[usize]) -> Result<Placement, VerbsError> {
        let failed = |verb, source| VerbsError::Call { verb, operand: format!("CPUs {cpus:?}"), source };
        let mut before = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: the size is that of the set, which outlives the call; 0 is the calling thread.
        if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), before.as_mut_ptr()) } != 0 {
            return Err(failed("sched_getaffinity", io::Error::last_os_error()));
        }
        // SAFETY: all zero is an empty set, and a filled one is what it was filled with.
        let (before, mut wanted) = unsafe { (before.assume_init(), std::mem::zeroed::<libc::cpu_set_t>()) };
        for cpu in cpus.iter().filter(|cpu| **cpu < libc::CPU_SETSIZE as usize) {
            // SAFETY: the number is inside of the set.
            unsafe { libc::CPU_SET(*cpu, &mut wanted) };
        }
        // SAFETY: as above.
        match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &wanted) } {
            0 => Ok(Placement { before }),
            _ => Err(failed("sched_setaffinity", io::Error::last_os_error())),
        }
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        // SAFETY: as in `pin`; a failure leaves the thread where it is.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Vec<usize> {
        // SAFETY: all zero is an empty set, which the call fills; numbers are inside of it.
        unsafe {
            let mut set = std::mem::zeroed::<libc::cpu_set_t>();
            assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set), 0);
            (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
        }
    }

    #[test]
    fn a_thread_is_held_to_its_cpus_and_let_go_again() {
        let before = now();
        let last = *before.last().unwrap();
        let placement = Placement::pin(&[last]).unwrap();
        assert_eq!(now(), [last]);
        drop(placement);
        assert_eq!(now(), before);
    }

    #[test]
    fn no_usable_cpu_is_an_error_that_names_them() {
        let Err(error) = Placement::pin(&[1023, 5000]) else { return };
        assert!(error.to_string().ends_with("on CPUs [1023, 5000]"), "{error}");
    }
}
