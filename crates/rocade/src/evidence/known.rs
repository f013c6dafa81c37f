//! What is known of a test as it goes on, and what that makes of an error, in words and as JSON.

use std::net::IpAddr;

use rocade_core::Host;
use rocade_core::diagnose::{Diagnosis, End, Evidence, Failure, diagnose};
use rocade_core::gid::{Choice, Connection, NoChoice};
use rocade_core::pair::perf::Operation;
use rocade_verbs::VerbsError;
use serde_json::{Value, json};

use super::{Watch, complete};
use crate::cli::Output;
use crate::outcome::{Advice, Outcome, hint, print, tell};
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
        self.diagnose(test, error).map(|failed| failed.tell())
    }

    /// The same, and on stdout as JSON where a result would have been that.
    pub(crate) fn conclude_as(self, form: Form, test: &str, error: anyhow::Error) -> anyhow::Result<Outcome> {
        let choice = self.choice.clone();
        match self.diagnose(test, error) {
            Ok(failed) => {
                form.print(test, choice.as_ref(), failed.to_json())?;
                Ok(failed.tell())
            }
            Err(error) => {
                form.print(test, choice.as_ref(), unmade(&error))?;
                Err(error)
            }
        }
    }

    fn diagnose(self, test: &str, error: anyhow::Error) -> anyhow::Result<Failed> {
        let Some(failure) = failure_of(&error) else {
            let of_tcp = || error.downcast_ref::<Unreached>().and_then(Unreached::cure);
            return Err(
                match error.downcast_ref::<VerbsError>().and_then(VerbsError::cure).or_else(of_tcp) {
                    Some(cure) => error.context(Advice::new(test, cure)),
                    None => error,
                },
            );
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
        let (diagnosis, of_rdma) = (diagnose(&evidence), evidence.failure.is_of_rdma());
        Ok(Failed { error: format!("{error:#}"), diagnosis, of_rdma })
    }
}

/// What stands on stdout of a test without a result.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// Nothing: words are for stderr.
    Words,
    /// One JSON document.
    Document,
    /// A line of JSON, one of many, that says whose test it was.
    Line(IpAddr),
}

impl Form {
    /// Of a command whose result is the one thing that it prints.
    pub(crate) fn of(output: Output) -> Form {
        match output {
            Output::Table => Form::Words,
            Output::Json => Form::Document,
        }
    }

    /// With what the test ran over, as far as that was chosen.
    fn print(self, test: &str, choice: Option<&Choice>, failure: Value) -> anyhow::Result<()> {
        let mut document = match choice {
            Some(choice) => serde_json::to_value(choice)?,
            None => json!({}),
        };
        (document["test"], document["failure"]) = (test.into(), failure);
        match self {
            Form::Words => Ok(()),
            Form::Document => print(&format!("{}\n", serde_json::to_string_pretty(&document)?)),
            Form::Line(peer) => {
                document["peer"] = peer.to_string().into();
                print(&format!("{document}\n"))
            }
        }
    }
}

/// A test that failed, and why.
struct Failed {
    error: String,
    diagnosis: Diagnosis,
    /// RDMA itself was tried.
    of_rdma: bool,
}

impl Failed {
    fn to_json(&self) -> Value {
        let Diagnosis { phase, cause, cure } = &self.diagnosis;
        json!({ "phase": phase, "of_rdma": self.of_rdma, "error": self.error, "cause": cause, "cure": cure })
    }

    fn tell(&self) -> Outcome {
        let Failed { error, diagnosis, of_rdma } = self;
        tell(&format!("rocade: {error}\ncause: {}\nhint: {}", diagnosis.cause, diagnosis.cure));
        if *of_rdma { Outcome::Failed } else { Outcome::CouldNotLook }
    }
}

/// An error that says itself all there is to say.
fn unmade(error: &anyhow::Error) -> Value {
    let text = format!("{error:#}");
    json!({ "phase": null, "of_rdma": false, "error": text, "cause": text, "cure": hint(error) })
}

fn failure_of(error: &anyhow::Error) -> Option<Failure> {
    let of_verbs = error.downcast_ref::<VerbsError>().and_then(VerbsError::failure);
    let of_choice = || error.downcast_ref::<NoChoice>().cloned().map(Failure::NoChoice);
    of_verbs.or_else(of_choice).or_else(|| error.downcast_ref::<Unreached>().and_then(Unreached::failure))
}

#[cfg(test)]
mod tests {
    use rocade_core::diagnose::Phase;

    use super::*;

    #[test]
    fn a_failure_as_json_has_its_phase_cause_and_cure() {
        let diagnosis =
            Diagnosis { phase: Phase::FirstPacket, cause: "no route".into(), cure: "add one".into() };
        let failed = Failed { error: "nothing happened".into(), diagnosis, of_rdma: true };
        let wanted = json!({
            "phase": "first-packet", "of_rdma": true, "error": "nothing happened", "cause": "no route",
            "cure": "add one"
        });
        assert_eq!(failed.to_json(), wanted);
    }

    #[test]
    fn an_error_that_is_no_failure_of_a_test_has_no_phase_but_its_hint() {
        let error = anyhow::anyhow!("too few").context(Advice::new("hugepages", "reserve more"));
        let found = unmade(&error);
        assert_eq!((&found["phase"], &found["cause"]), (&Value::Null, &"hugepages: too few".into()));
        assert_eq!(found["cure"], "reserve more");
        assert_eq!(unmade(&anyhow::anyhow!("odd"))["cure"], Value::Null);
    }
}
