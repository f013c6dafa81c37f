use super::*;

const WHOLE: &str = "\
apiVersion: rocade.dev/v1alpha1
kind: Policy
silence: [RDC223]
groups:
- name: gpu
  hosts: ['gpu-*']
  netnsMode: shared
  sysctls: {net.ipv4.conf.all.rp_filter: 2}
  ports:
  - select: {transports: [roce], vendors: ['15b3'], netdevs: ['ens*']}
    count: 8
    rateGbps: 400
    mtu: 9000
    firmware: 28.43.*
    pfc: [3]
    ecn: [3]
    dscp: 26
    maxReadRequest: 4096
";

fn error(text: &str) -> String {
    Policy::parse("p.yaml", text).unwrap_err().to_string()
}

#[test]
fn a_policy_may_expect_all_that_the_form_has() {
    let policy = Policy::parse("p.yaml", WHOLE).unwrap();
    let ports = &policy.groups[0].ports[0];
    assert_eq!((ports.count, ports.mtu, ports.rate_gbps), (Some(8), Some(9000), Some(400.0)));
    assert_eq!(ports.select.vendors, ["15b3"]);
}

#[test]
fn a_mistake_is_told_with_file_and_line() {
    for (right, wrong, line, word) in [
        ("silence: [RDC223]", "silence: [RDC999]", 3, "RDC999"),
        ("    mtu: 9000", "    mtoo: 9000", 13, "mtoo"),
        ("    mtu: 9000", "    mtu: 9", 13, "68"),
        ("    mtu: 9000", "    mtu: large", 13, "u32"),
        ("    pfc: [3]", "    pfc: [8]", 15, "8 is no priority"),
        ("transports: [roce]", "transports: [ethernet]", 10, "ethernet"),
        ("kind: Policy", "kind: AgentConfig", 2, "AgentConfig"),
        ("v1alpha1", "v1", 1, "rocade.dev/v1`"),
    ] {
        let text = error(&WHOLE.replace(right, wrong));
        assert!(text.starts_with(&format!("p.yaml:{line}: ")) && text.contains(word), "{wrong}: {text}");
    }
}

#[test]
fn a_newer_version_is_refused_before_its_unknown_keys_are() {
    let text = error("apiVersion: rocade.dev/v2\nkind: Policy\nnewKey: 1\n");
    assert_eq!(text, "p.yaml:1: apiVersion `rocade.dev/v2`, wanted rocade.dev/v1alpha1");
}

#[test]
fn what_is_no_yaml_or_no_policy_is_an_error() {
    for text in ["", "[]", "a: [", "kind: Policy\n", "apiVersion: rocade.dev/v1alpha1\n"] {
        assert!(error(text).starts_with("p.yaml:"), "{text:?}");
    }
}

#[test]
fn a_group_is_chosen_by_host_name_or_by_its_own() {
    let policy = Policy::parse("p.yaml", WHOLE).unwrap();
    let names = |host, group| policy.groups_of(host, group).len();
    assert_eq!(names(Some("gpu-17"), None), 1);
    assert_eq!(names(Some("cpu-17"), None), 0);
    assert_eq!(names(None, None), 0);
    assert_eq!(names(None, Some("gpu")), 1);
}

#[test]
fn a_star_stands_for_any_text() {
    for (pattern, text, fits) in [
        ("*", "", true),
        ("a*", "abc", true),
        ("a*c", "abc", true),
        ("a*c", "ac", true),
        ("a*c", "abcd", false),
        ("*b*d", "abcd", true),
        ("abc", "abc", true),
        ("ab", "abc", false),
        ("a*a", "a", false),
    ] {
        assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
    }
}
