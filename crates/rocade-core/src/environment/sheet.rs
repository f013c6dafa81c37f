//! The list of variables as it is filled, with what the user has set put above the rules.

use std::collections::BTreeMap;

use super::{By, Given, Library, Variable};

/// The list.
#[derive(Debug)]
pub(super) struct Sheet<'a> {
    user: &'a BTreeMap<String, String>,
    pub(super) variables: Vec<Variable>,
}

impl<'a> Sheet<'a> {
    pub(super) fn new(given: &Given<'a>) -> Sheet<'a> {
        Sheet { user: given.variables, variables: Vec::new() }
    }

    /// Gives a variable a value, or leaves it unset, for a reason.
    pub(super) fn put(
        &mut self,
        library: Library,
        name: &'static str,
        rule: &'static str,
        value: Option<String>,
        why: impl Into<String>,
    ) {
        let why = why.into();
        let set = self.user.get(name).filter(|value| !value.is_empty());
        let (value, by, why) = match set {
            None => (value, By::Rule, why),
            Some(theirs) if value.as_ref() == Some(theirs) => {
                (value, By::User, format!("set before, and the same would be set: {why}"))
            }
            Some(theirs) => {
                let ours =
                    value.map_or("it would be left unset".to_owned(), |ours| format!("{ours} would be set"));
                (Some(theirs.clone()), By::User, format!("set before, which counts; {ours}: {why}"))
            }
        };
        self.variables.push(Variable { name, library, value, by, why, rule });
    }
}
