//! What is odd about the entries of config.json's lists. They are taken all the same, as the k8s-rdma-shared-dev-plugin
//! takes them.

use super::super::Dialect;
use super::super::value::{self, Id};
use super::super::wrong::{Wrong, quoted};
use super::{Judge, Node, Position};
use crate::finding::Severity;

/// Says what is odd about an entry of a list; gives it as it will be compared.
pub(super) type Check<J> = fn(&mut J, Position, &str, String) -> String;

impl Judge<'_> {
    /// The entries of a list, which null leaves as it was.
    pub(super) fn checked_texts(
        &mut self,
        node: &Node,
        path: &str,
        list: &mut Vec<String>,
        check: Check<Self>,
    ) {
        let Some(items) = self.list(node, path) else { return };
        list.clear();
        for (i, item) in items.iter().enumerate() {
            let path = format!("{path}[{i}]");
            let text = self.text(item, &path);
            list.extend(text.map(|(at, text)| check(self, at, &path, text)));
        }
    }

    pub(super) fn vendor(&mut self, at: Position, path: &str, text: String) -> String {
        self.id(Id::Vendor, at, path, text)
    }

    pub(super) fn device_id(&mut self, at: Position, path: &str, text: String) -> String {
        if value::may_be_bus(&text) {
            let subject = self.subject(at, path);
            let wanted = "a PCI device id, as 1021";
            let cure = "`lspci -nn` shows it behind the vendor, as [15b3:1021]";
            let seen = format!("{} looks like the bus number of an address", quoted(&text));
            self.say("RDC714", Severity::Note, subject, seen, wanted, cure);
        }
        self.id(Id::Device, at, path, text)
    }

    fn id(&mut self, id: Id, at: Position, path: &str, text: String) -> String {
        self.odd(at, path, value::check_id(id, &text, Dialect::ConfigJson));
        let normal = value::normal_id(&text);
        self.mended(at, path, text, normal)
    }

    pub(super) fn driver(&mut self, at: Position, path: &str, text: String) -> String {
        self.odd(at, path, value::check_driver(&text));
        text
    }

    pub(super) fn netdev(&mut self, at: Position, path: &str, text: String) -> String {
        self.odd(at, path, value::check_netdev(&text, Dialect::ConfigJson));
        text
    }

    /// An entry of `devices`, which are interfaces; the SR-IOV network device plugin has device ids there.
    pub(super) fn device(&mut self, at: Position, path: &str, text: String) -> String {
        if value::normal_id(&text).is_some() {
            let wrong = Wrong::new("RDC714", quoted(&text), "the name of an interface, as ens18np0");
            let cure = "a PCI device id stands under selectors.deviceIDs";
            self.odd(at, path, Some(wrong.with_cure(cure)));
            return text;
        }
        self.netdev(at, path, text)
    }

    pub(super) fn link_type(&mut self, at: Position, path: &str, text: String) -> String {
        self.odd(at, path, value::check_link_type(&text));
        let normal = value::normal_link_type(&text);
        self.mended(at, path, text, normal)
    }

    /// The text as it will be compared; says where that is not what was written.
    fn mended(&mut self, at: Position, path: &str, text: String, normal: Option<String>) -> String {
        let Some(normal) = normal.filter(|normal| *normal != text) else { return text };
        let cure = "it is read so; the k8s-rdma-shared-dev-plugin finds nothing by it";
        self.warning("RDC715", at, path, quoted(&text), quoted(&normal), cure);
        normal
    }

    fn odd(&mut self, at: Position, path: &str, wrong: Option<Wrong>) {
        let Some(Wrong { code, seen, wanted, cure }) = wrong else { return };
        self.warning(code, at, path, seen, wanted, cure);
    }
}
