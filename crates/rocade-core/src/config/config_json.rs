//! The k8s-rdma-shared-dev-plugin's config.json, accepted and refused as that plugin does: keys are matched as Go's
//! encoding/json matches them, null leaves a field unset, the last of two equal keys wins. Its own rules live in
//! github.com/Mellanox/k8s-rdma-shared-dev-plugin pkg/resources/resources_manager.go (ReadConfig, ValidateConfigs).
//! Beyond them, what could only end in a silent nothing is said: a name that Kubernetes refuses, a resource without
//! slots, an unknown key, a value that no HCA has. Case and 0x of PCI ids and the case of link types are mended.

use super::json::{Member, Node, Position, Value, parse_json};
use super::wrong::nearest;
use super::{Config, DEFAULT_PREFIX, MAX_SLOTS, Parsed, Resource, Selectors};
use crate::finding::{Finding, Severity};
use crate::names::{ParseNameError, ResourceName};

#[cfg(test)]
mod tests;
mod values;

use values::Check;

const TOP_KEYS: [&str; 2] = ["periodicUpdateInterval", "configList"];
const RESOURCE_KEYS: [&str; 5] = ["resourceName", "resourcePrefix", "rdmaHcaMax", "devices", "selectors"];
const SELECTOR_KEYS: [&str; 5] = ["vendors", "deviceIDs", "drivers", "ifNames", "linkTypes"];

/// Keys of the SR-IOV network device plugin and of `kind: AgentConfig`, and what stands for them here.
const FOREIGN_KEYS: [(&str, &str); 9] = [
    ("resourceList", "it is the SR-IOV network device plugin's; resources stand under configList"),
    ("pfNames", "interfaces stand under ifNames"),
    ("netdevs", "interfaces stand under ifNames"),
    ("rootDevices", "select by the interface under ifNames (`kind: AgentConfig` has pciAddresses)"),
    ("pciAddresses", "select by the interface under ifNames (`kind: AgentConfig` has pciAddresses)"),
    ("linkLayers", "link types stand under linkTypes"),
    ("isRdma", "every resource here is of RDMA devices"),
    ("name", "the name stands under resourceName"),
    ("slots", "their number stands under rdmaHcaMax"),
];

/// Reads the text of a config.json; `file` is the name to call it in findings.
///
/// Gives the configuration and what is odd about it, or, if any finding is an error, the findings alone. `strict`
/// makes every warning an error.
///
/// # Errors
/// All findings, at least one of them an error.
pub fn parse_config_json(file: &str, text: &str, strict: bool) -> Parsed<Config> {
    let mut judge = Judge { file, strict, findings: Vec::new() };
    let config = match parse_json(text) {
        Ok(node) => judge.config(&node),
        Err(error) => {
            let subject = format!("{file}:{}:{} {}", error.at.line, error.at.column, error.path);
            let subject = subject.trim_end().to_owned();
            judge.say("RDC701", Severity::Error, subject, error.seen, error.wanted, "correct the JSON");
            return Err(judge.findings);
        }
    };
    if judge.findings.iter().any(|f| f.severity == Severity::Error) {
        return Err(judge.findings);
    }
    Ok((config, judge.findings))
}

/// A value and where it stood.
type Placed<T> = (Position, T);

/// An entry of configList as far as it could be read.
struct Draft {
    at: Position,
    path: String,
    name: Option<Placed<String>>,
    prefix: Option<Placed<String>>,
    slots: Option<Placed<i64>>,
    devices: Vec<String>,
    selectors: Selectors,
    /// Keys whose values could not be read, which was said.
    unread: Vec<&'static str>,
}

struct Judge<'a> {
    file: &'a str,
    strict: bool,
    findings: Vec<Finding>,
}

impl Judge<'_> {
    fn config(&mut self, node: &Node) -> Config {
        let mut interval = None;
        let mut entries: &[Node] = &[];
        let mut list_at = (node.at, String::new());
        let members = self.members(node, "", &TOP_KEYS);
        let mut is_list_unread = self.unread() > 0;
        for (key, member) in members {
            match key {
                "periodicUpdateInterval" => interval = self.whole_number(&member.value, key).or(interval),
                _ => {
                    list_at = (member.at, key.to_owned());
                    let unread = self.unread();
                    entries = self.list(&member.value, key).unwrap_or(entries);
                    is_list_unread |= self.unread() > unread;
                }
            }
        }
        if entries.is_empty() && !is_list_unread {
            let cure = "list at least one resource under configList";
            self.error("RDC710", list_at.0, &list_at.1, "no resource", "at least one", cure);
        }
        let resources = self.resources(entries);
        Config::of_config_json(self.interval(interval), resources)
    }

    /// The entries that can be served. A name is compared with the others whatever else is wrong with its entry.
    fn resources(&mut self, entries: &[Node]) -> Vec<Resource> {
        let drafts: Vec<Draft> = entries.iter().enumerate().map(|(i, node)| self.draft(i, node)).collect();
        let (mut names, mut resources) = (Vec::new(), Vec::new());
        for draft in drafts {
            let name = self.name(&draft);
            let at = draft.name.as_ref().map_or(draft.at, |(at, _)| *at);
            let path = format!("{}.resourceName", draft.path);
            names.extend(name.clone().map(|name| (at, path, name)));
            let (slots, selectors) = (self.slots(&draft), self.chosen(draft));
            if let (Some(name), Some(slots), Some(selectors)) = (name, slots, selectors) {
                resources.push(Resource::of_config_json(name, slots, selectors));
            }
        }
        self.check_names_are_unique(&names);
        resources
    }

    fn draft(&mut self, index: usize, node: &Node) -> Draft {
        let path = format!("configList[{index}]");
        let mut draft = Draft {
            at: node.at,
            path: path.clone(),
            name: None,
            prefix: None,
            slots: None,
            devices: Vec::new(),
            selectors: Selectors::default(),
            unread: Vec::new(),
        };
        let unread = self.unread();
        let members = self.members(node, &path, &RESOURCE_KEYS);
        if self.unread() > unread {
            draft.unread.extend(RESOURCE_KEYS);
        }
        for (key, member) in members {
            let (value, path) = (&member.value, format!("{path}.{key}"));
            let unread = self.unread();
            match key {
                "resourceName" => draft.name = self.text(value, &path).or(draft.name),
                "resourcePrefix" => draft.prefix = self.text(value, &path).or(draft.prefix),
                "rdmaHcaMax" => draft.slots = self.whole_number(value, &path).or(draft.slots),
                "devices" => self.checked_texts(value, &path, &mut draft.devices, Self::device),
                _ => self.selectors(value, &path, &mut draft.selectors),
            }
            if self.unread() > unread {
                draft.unread.push(key);
            }
        }
        draft
    }

    fn selectors(&mut self, node: &Node, path: &str, selectors: &mut Selectors) {
        for (key, member) in self.members(node, path, &SELECTOR_KEYS) {
            let (list, check): (_, Check<Self>) = match key {
                "vendors" => (&mut selectors.vendors, Self::vendor),
                "deviceIDs" => (&mut selectors.device_ids, Self::device_id),
                "drivers" => (&mut selectors.drivers, Self::driver),
                "ifNames" => (&mut selectors.if_names, Self::netdev),
                _ => (&mut selectors.link_types, Self::link_type),
            };
            self.checked_texts(&member.value, &format!("{path}.{key}"), list, check);
        }
    }

    fn name(&mut self, draft: &Draft) -> Option<ResourceName> {
        let Some((at, name)) = &draft.name else {
            if !draft.unread.contains(&"resourceName") {
                let cure = "name it, as \"resourceName\": \"hca_a\"";
                self.error("RDC704", draft.at, &draft.path, "no resourceName", "a name", cure);
            }
            return None;
        };
        let prefix = draft.prefix.as_ref().filter(|(_, text)| !text.is_empty());
        let (prefix_at, prefix) = prefix.map_or((*at, DEFAULT_PREFIX), |(at, text)| (*at, text));
        // Each beside a good one, so that what is refused is its own fault.
        let path = |key: &str| format!("{}.{key}", draft.path);
        let is_prefix_good = self.take(prefix_at, &path("resourcePrefix"), ResourceName::new(prefix, "a"));
        let is_name_good = self.take(*at, &path("resourceName"), ResourceName::new(DEFAULT_PREFIX, name));
        let resource = ResourceName::new(prefix, name).ok().filter(|_| is_prefix_good && is_name_good)?;
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            let subject = self.subject(*at, &path("resourceName"));
            let cure = "only a way back to the k8s-rdma-shared-dev-plugin needs the narrower form";
            let wanted = "letters, digits and _ for that plugin";
            self.say("RDC711", Severity::Note, subject, format!("`{name}`"), wanted, cure);
        }
        Some(resource)
    }

    /// Whether the name was taken; says why not.
    fn take(&mut self, at: Position, path: &str, name: Result<ResourceName, ParseNameError>) -> bool {
        if let Err(error) = &name {
            let seen = format!("Kubernetes refuses `{}`", error.seen);
            self.error("RDC704", at, path, seen, error.wanted, "");
        }
        name.is_ok()
    }

    fn slots(&mut self, draft: &Draft) -> Option<u32> {
        let path = format!("{}.rdmaHcaMax", draft.path);
        let cure = "set how many Pods may share the HCAs, as \"rdmaHcaMax\": 100";
        let wanted = "a whole number from 1 to 200000";
        match draft.slots {
            None if draft.unread.contains(&"rdmaHcaMax") => None,
            None => {
                self.warning(
                    "RDC708",
                    draft.at,
                    &path,
                    "missing: no Pod can ever get the resource",
                    wanted,
                    cure,
                );
                Some(0)
            }
            Some((at, 0)) => {
                self.warning("RDC708", at, &path, "0: no Pod can ever get the resource", wanted, cure);
                Some(0)
            }
            Some((at, n)) if !(0..=i64::from(MAX_SLOTS)).contains(&n) => {
                self.error("RDC707", at, &path, n.to_string(), wanted, cure);
                None
            }
            Some((_, n)) => u32::try_from(n).ok(),
        }
    }

    /// The selectors in force: `devices` is an older way to write `ifNames`.
    fn chosen(&mut self, draft: Draft) -> Option<Selectors> {
        let cure = "select HCAs, as \"selectors\": {\"ifNames\": [\"ens18np0\"]}";
        match (draft.selectors.is_empty(), draft.devices.is_empty()) {
            (false, true) => Some(draft.selectors),
            (true, false) => Some(Selectors { if_names: draft.devices, ..Selectors::default() }),
            (true, true) if draft.unread.iter().any(|key| ["devices", "selectors"].contains(key)) => None,
            (true, true) => {
                self.error(
                    "RDC706",
                    draft.at,
                    &draft.path,
                    "no selectors",
                    "at least one that is not empty",
                    cure,
                );
                None
            }
            (false, false) => {
                let seen = "both devices and selectors";
                self.error("RDC706", draft.at, &draft.path, seen, "one of them", "keep selectors alone");
                None
            }
        }
    }

    fn interval(&mut self, interval: Option<Placed<i64>>) -> Option<u64> {
        let (at, seconds) = interval?;
        if seconds < 0 {
            let wanted = "seconds, or 0 to look when something happens";
            self.error("RDC707", at, "periodicUpdateInterval", seconds.to_string(), wanted, "");
        }
        u64::try_from(seconds).ok().filter(|s| *s > 0)
    }

    /// The plugin refuses one name under two prefixes as well: its socket is named after the name alone.
    fn check_names_are_unique(&mut self, names: &[(Position, String, ResourceName)]) {
        for (i, (at, path, name)) in names.iter().enumerate() {
            for (first_at, _, first) in &names[..i] {
                let line = first_at.line;
                if first.name() == name.name() {
                    let seen = format!("a second resource `{}`, the first is in line {line}", name.name());
                    self.error(
                        "RDC705",
                        *at,
                        path,
                        seen,
                        "each name once, whatever its prefix",
                        "rename one",
                    );
                } else if first.grant_variable() == name.grant_variable() {
                    let variable = name.grant_variable();
                    let seen = format!("`{name}` and `{first}` (line {line}) share {variable}");
                    self.error(
                        "RDC712",
                        *at,
                        path,
                        seen,
                        "names that differ in more than case and signs",
                        "rename one",
                    );
                }
            }
        }
    }

    /// The members of an object whose keys are known, in order; the others are warned of.
    fn members<'n>(
        &mut self,
        node: &'n Node,
        path: &str,
        known: &[&'static str],
    ) -> Vec<(&'static str, &'n Member)> {
        let members = match &node.value {
            Value::Object(members) => members,
            Value::Null => return Vec::new(),
            other => {
                self.error("RDC703", node.at, path, other.to_string(), "an object in { }", "");
                return Vec::new();
            }
        };
        let mut found: Vec<(&'static str, &Member)> = Vec::new();
        for member in members {
            let path = if path.is_empty() { member.key.clone() } else { format!("{path}.{}", member.key) };
            let Some(key) = known.iter().find(|k| folded(k) == folded(&member.key)) else {
                self.unknown_key(member, &path, known);
                continue;
            };
            if let Some((_, first)) = found.iter().find(|(k, _)| k == key) {
                let seen = format!("given before in line {}", first.at.line);
                self.warning(
                    "RDC709",
                    member.at,
                    &path,
                    seen,
                    "each key once",
                    "the last one counts: remove the others",
                );
            }
            found.push((key, member));
        }
        found
    }

    fn unknown_key(&mut self, member: &Member, path: &str, known: &[&'static str]) {
        let foreign = FOREIGN_KEYS.iter().find(|(key, _)| folded(key) == folded(&member.key));
        let near = nearest(&folded(&member.key), known).map(|key| format!("the nearest key is {key}"));
        let advice = foreign.map(|(_, advice)| (*advice).to_owned()).or(near);
        let cure = ["it is ignored".to_owned()].into_iter().chain(advice).collect::<Vec<_>>().join("; ");
        let wanted = format!("one of {}", known.join(", "));
        self.warning("RDC702", member.at, path, "an unknown key", wanted, cure);
    }

    fn text(&mut self, node: &Node, path: &str) -> Option<Placed<String>> {
        match &node.value {
            Value::Text(text) => Some((node.at, text.clone())),
            Value::Null => None,
            other => self.wrong_kind(node.at, path, other, "text in double quotes"),
        }
    }

    fn whole_number(&mut self, node: &Node, path: &str) -> Option<Placed<i64>> {
        match &node.value {
            Value::Number(digits) => match digits.parse() {
                Ok(number) => Some((node.at, number)),
                Err(_) => self.wrong_kind(node.at, path, &node.value, "a whole number, as 100"),
            },
            Value::Null => None,
            other => self.wrong_kind(node.at, path, other, "a whole number, as 100"),
        }
    }

    fn list<'n>(&mut self, node: &'n Node, path: &str) -> Option<&'n [Node]> {
        match &node.value {
            Value::List(items) => Some(items),
            Value::Null => None,
            other => self.wrong_kind(node.at, path, other, "a list in [ ]"),
        }
    }

    fn wrong_kind<T>(&mut self, at: Position, path: &str, seen: &Value, wanted: &str) -> Option<T> {
        self.error("RDC703", at, path, seen.to_string(), wanted, "");
        None
    }

    /// How many values could not be read so far. What depends on one is not called missing.
    fn unread(&self) -> usize {
        self.findings.iter().filter(|finding| finding.code == "RDC703").count()
    }

    fn error(
        &mut self,
        code: &'static str,
        at: Position,
        path: &str,
        seen: impl Into<String>,
        wanted: &str,
        cure: &str,
    ) {
        self.say(code, Severity::Error, self.subject(at, path), seen, wanted, cure);
    }

    fn warning(
        &mut self,
        code: &'static str,
        at: Position,
        path: &str,
        seen: impl Into<String>,
        wanted: impl Into<String>,
        cure: impl Into<String>,
    ) {
        let severity = if self.strict { Severity::Error } else { Severity::Warning };
        self.say(code, severity, self.subject(at, path), seen, wanted, cure);
    }

    fn say(
        &mut self,
        code: &'static str,
        severity: Severity,
        subject: String,
        seen: impl Into<String>,
        wanted: impl Into<String>,
        cure: impl Into<String>,
    ) {
        let (seen, wanted, cure) = (seen.into(), wanted.into(), cure.into());
        self.findings.push(Finding { code, severity, subject, seen, wanted, cure });
    }

    fn subject(&self, at: Position, path: &str) -> String {
        format!("{}:{} {path}", self.file, at.line).trim_end().to_owned()
    }
}

/// Go's encoding/json compares keys without case; besides ASCII it takes ſ for s and the Kelvin sign for k.
fn folded(key: &str) -> String {
    let fold = |c: char| match c {
        'ſ' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    key.chars().map(fold).collect()
}
