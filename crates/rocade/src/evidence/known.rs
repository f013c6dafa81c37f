//! What is known of a test as it goes on, and what that makes of an error.

use rocade_core::Host;
use rocade_core::diagnose::{End, Evidence, Failure, diagnose};
use rocade_core::gid::{Choice, Connection, NoChoice};
use rocade_core::pair::perf::Operation;
use rocade_verbs::VerbsError;

use super::{Watch, complete};
use crate::outcome::{Advice, Outcome, tell};
use crate::tcp::Unreached;

/// Filled as it becomes known.
#[derive(Default)]
pub(crate) struct Known {
    /// As it was read before the test.
    pub(crate) host: Host,
    pub(crate) library_said: String,
    pub(crate) connection: Option<Connection>,
    pub(crate) choice: Option<Choice>,
    pub(crate) watch: Option<Watch>,
    pub(crate) operation: Option<Operation>,
    pub(crate) sends: Option<bool>,
    pub(crate) local: End,
    pub(crate) remote: End,
}

impl Known {
    /// Tells the diagnosis of a failed test. An error that is no failure of one stays an error, with what to do where
    /// that is known.
    pub(crate) fn conclude(self, test: &str, error: anyhow::Error) -> anyhow::Result<Outcome> {
        let Some(failure) = failure_of(&error) else {
            return Err(match error.downcast_ref::<VerbsError>().and_then(VerbsError::cure) {
                Some(cure) => error.context(Advice::new(test, cure)),
                None => error,
            });
        };
        let mut evidence = Evidence {
            choice: self.choice.as_ref(),
            connection: self.connection,
            operation: self.operation,
            sends: self.sends,
            local: self.local,
            remote: self.remote,
            library_said: &self.library_said,
            ..Evidence::of(failure, &self.host)
        };
        complete(&mut evidence, self.watch.as_ref());
        let diagnosis = diagnose(&evidence);
        tell(&format!("rocade: {error:#}\ncause: {}\nhint: {}", diagnosis.cause, diagnosis.cure));
        Ok(if evidence.failure.is_of_rdma() { Outcome::Failed } else { Outcome::CouldNotLook })
    }
}

fn failure_of(error: &anyhow::Error) -> Option<Failure> {
    let of_verbs = error.downcast_ref::<VerbsError>().and_then(VerbsError::failure);
    let of_choice = || error.downcast_ref::<NoChoice>().cloned().map(Failure::NoChoice);
    of_verbs.or_else(of_choice).or_else(|| error.downcast_ref::<Unreached>().map(Unreached::failure))
}
