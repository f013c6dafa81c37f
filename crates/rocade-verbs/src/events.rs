//! What a device tells at any time, unasked: a port that goes down, a QP that fails.

use std::ffi::CStr;
use std::io;

use rocade_core::PortNum;

use crate::bindings::{self as ffi, ibv_async_event};
use crate::device::Device;
use crate::error::{VerbsError, check};

/// One asynchronous event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// libibverbs' words for it, as `port error`.
    pub text: String,
    /// The port that it is about; None for one about a QP, a CQ or the whole device.
    pub port: Option<PortNum>,
    /// Whether what runs over the device or the port cannot go on.
    pub is_failure: bool,
}

impl Event {
    /// Whether a test over that port of the device cannot go on: another port's events say nothing of it.
    pub fn ends_a_test_on(&self, port: PortNum) -> bool {
        self.is_failure && self.port.is_none_or(|of| of == port)
    }
}

impl Device {
    /// The oldest event that was not taken yet; never waits.
    pub fn take_event(&self) -> Result<Option<Event>, VerbsError> {
        if !self.has_event()? {
            return Ok(None);
        }
        let mut event = ibv_async_event::default();
        // SAFETY: the device is open, and the event outlives the call, which does not wait, as one is there and no other
        // thread takes any.
        let result = unsafe { self.library.verbs.ibv_get_async_event(self.raw.as_ptr(), &mut event) };
        check("ibv_get_async_event", || self.name().to_string(), result)?;
        let told = self.describe(&event);
        // SAFETY: an event just taken, acknowledged once. It holds back the end of the object that it is about.
        unsafe { self.library.verbs.ibv_ack_async_event(&mut event) };
        Ok(Some(told))
    }

    fn describe(&self, event: &ibv_async_event) -> Event {
        // SAFETY: takes any number, and returns a constant string.
        let text = unsafe { CStr::from_ptr(self.library.verbs.ibv_event_type_str(event.event_type)) };
        // SAFETY: all variants of the union start at the same byte, and any bytes are a number.
        let number = unsafe { event.element.port_num };
        let port = is_of_port(event.event_type).then(|| PortNum(u32::try_from(number).unwrap_or(0)));
        Event { text: text.to_string_lossy().into_owned(), port, is_failure: is_failure(event.event_type) }
    }

    fn has_event(&self) -> Result<bool, VerbsError> {
        // SAFETY: the device is open.
        let fd = unsafe { self.raw.as_ref() }.async_fd;
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which outlives the call.
        match unsafe { libc::poll(&mut poll, 1, 0) } {
            0.. => Ok(poll.revents & libc::POLLIN != 0),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                source => Err(VerbsError::Call {
                    verb: "poll",
                    operand: format!("events of {}", self.name()),
                    source,
                }),
            },
        }
    }
}

fn is_of_port(kind: ffi::ibv_event_type) -> bool {
    matches!(
        kind,
        ffi::IBV_EVENT_PORT_ACTIVE
            | ffi::IBV_EVENT_PORT_ERR
            | ffi::IBV_EVENT_LID_CHANGE
            | ffi::IBV_EVENT_PKEY_CHANGE
            | ffi::IBV_EVENT_SM_CHANGE
            | ffi::IBV_EVENT_CLIENT_REREGISTER
            | ffi::IBV_EVENT_GID_CHANGE
            | ffi::IBV_EVENT_DEVICE_SPEED_CHANGE
    )
}

fn is_failure(kind: ffi::ibv_event_type) -> bool {
    matches!(
        kind,
        ffi::IBV_EVENT_CQ_ERR
            | ffi::IBV_EVENT_QP_FATAL
            | ffi::IBV_EVENT_QP_REQ_ERR
            | ffi::IBV_EVENT_QP_ACCESS_ERR
            | ffi::IBV_EVENT_DEVICE_FATAL
            | ffi::IBV_EVENT_PORT_ERR
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_comes_up_or_gets_an_address_ends_no_test_and_one_that_goes_down_does() {
        for kind in [ffi::IBV_EVENT_PORT_ACTIVE, ffi::IBV_EVENT_GID_CHANGE] {
            assert!(is_of_port(kind) && !is_failure(kind), "{kind}");
        }
        assert!(is_of_port(ffi::IBV_EVENT_PORT_ERR) && is_failure(ffi::IBV_EVENT_PORT_ERR));
        assert!(!is_of_port(ffi::IBV_EVENT_QP_ACCESS_ERR) && is_failure(ffi::IBV_EVENT_QP_ACCESS_ERR));
        assert!(!is_failure(ffi::IBV_EVENT_COMM_EST) && !is_failure(ffi::IBV_EVENT_QP_LAST_WQE_REACHED));
    }

    #[test]
    fn a_port_that_goes_down_ends_the_tests_on_it_and_a_device_that_fails_those_on_all_its_ports() {
        let event = |port, is_failure| Event { text: "it".to_owned(), port, is_failure };
        let (first, second) = (PortNum(1), PortNum(2));
        for (event, ends) in [
            (event(Some(first), true), [true, false]),
            (event(Some(second), true), [false, true]),
            (event(None, true), [true, true]),
            (event(Some(first), false), [false, false]),
        ] {
            assert_eq!([first, second].map(|port| event.ends_a_test_on(port)), ends, "{event:?}");
        }
    }
}
