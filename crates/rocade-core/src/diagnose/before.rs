//! What goes wrong before RDMA: names, TCP, and what both ends tell each other over it.

use super::{Evidence, Exchange, Said, Unlike, because, errno, path};

pub(super) fn unresolved(name: &str) -> Said {
    because(
        format!("no address could be found for the name {name}"),
        format!("give the other end's address, or see `getent ahosts {name}` for what the resolver says"),
    )
}

pub(super) fn unconnected(server: &str, port: u16, errno: i32) -> Said {
    match errno {
        errno::ECONNREFUSED => because(
            format!("nothing listens on TCP port {port} of {server}, or a firewall refuses it"),
            "start the waiting end there first, with the same -p, or wait for it with --wait",
        ),
        errno::ETIMEDOUT => because(
            format!("{server} did not answer on TCP port {port}"),
            "is the address right, and does a firewall or NetworkPolicy drop the port? Any network that both ends share \
             will do: RDMA chooses its own",
        ),
        // The same of an address that nobody has, and of a firewall's answer (ICMP host or communication prohibited).
        errno::EHOSTUNREACH => because(
            format!(
                "neither {server} nor a router on the way to it answers, or a firewall there rejects TCP port {port}"
            ),
            format!(
                "is the host up, and its address right? See `ip neigh` and `ip route get {server}`. If it answers `ping`, look \
                 for a rule that rejects the port with icmp-host-prohibited, as firewalld's and iptables-services' do"
            ),
        ),
        errno::EADDRNOTAVAIL => because(
            format!(
                "no address of this host goes for a connection to {server}: it has none of that family, or that of --bind \
                 (--source_ip) is not here or of another one"
            ),
            "see `ip addr` for this host's addresses; leave --bind out, or give an address of the other end that is of this \
             host's family",
        ),
        errno::ENETUNREACH => because(
            format!("this end has no route to {server}"),
            format!("see `ip route get {server}`, or give an address of a network that both ends share"),
        ),
        _ => because(
            format!("no connection to TCP port {port} of {server} came about"),
            "start the waiting end there first, and see that nothing blocks the port",
        ),
    }
}

pub(super) fn exchange_failed(evidence: &Evidence<'_>, exchange: &Exchange) -> Said {
    match exchange {
        Exchange::Garbage { wanted, seen } => recognised(wanted, seen).unwrap_or_else(|| {
            because(
                format!("the other end sent something else than {wanted}"),
                "start the same test at both ends, and see that nothing else listens on that TCP port",
            )
        }),
        // A stock tool that cannot use our address closes without a word.
        Exchange::Closed { wanted, seen } => cut_off(wanted, seen)
            .or_else(|| path::unlike_ends(evidence))
            .or_else(|| path::foreign_gid(evidence))
            .unwrap_or_else(|| closed(wanted, seen.len())),
        Exchange::Timeout { wanted, seen, seconds } => {
            cut_off(wanted, seen).unwrap_or_else(|| timeout(wanted, seen.len(), *seconds))
        }
        Exchange::Broken { wanted, seen, errno } => cut_off(wanted, seen)
            .or_else(|| path::unlike_ends(evidence))
            .unwrap_or_else(|| broken(wanted, *errno)),
        Exchange::Version { theirs } => because(
            format!("the other end announces version {theirs}, whose exchange is another one"),
            "start rocade there too, or perftest of another version: 5.70 to 6.27 and 6.29 or newer speak the same",
        ),
        Exchange::Unlike { what, here, there } => unlike(*what, here, there.as_deref()),
        Exchange::Refused { reason } => because(
            format!("the other end will not: {reason}"),
            "change that option, come again where others take what there is, or start the other end anew",
        ),
        Exchange::GaveUp { reason, of_rdma } => {
            let what = if *of_rdma { "RDMA failed at the other end" } else { "the other end gave up" };
            because(format!("{what}: {reason}"), "see the other end's output, which says what to do there")
        }
    }
}

/// Both ends were connected. Facts that keep every packet away explain nothing once messages went.
pub(super) fn broken_off(evidence: &Evidence<'_>, exchange: &Exchange, done: u64) -> Said {
    let keeps_apart = || path::unlike_ends(evidence).or_else(|| path::foreign_gid(evidence));
    match exchange {
        Exchange::Closed { wanted, seen } | Exchange::Broken { wanted, seen, .. } => cut_off(wanted, seen)
            .or_else(|| if done == 0 { keeps_apart() } else { None })
            .unwrap_or_else(|| {
                because(
                    "the other end ended while this end's test ran",
                    "see its output: it was ended, failed, or had fewer messages to go (-n, -D)",
                )
            }),
        other => exchange_failed(evidence, other),
    }
}

/// A part of a message may be one of what was to come; then it tells nothing.
fn cut_off(wanted: &str, seen: &[u8]) -> Option<Said> {
    let is_other = match recognise(seen)? {
        Spoken::Service(_) => true,
        Spoken::Perftest => !wanted.contains("version"),
        Spoken::Pingpong | Spoken::PerftestKey => false,
    };
    is_other.then(|| recognised(wanted, seen)).flatten()
}

/// By the first bytes of what came instead of what was to come.
fn recognised(wanted: &str, seen: &[u8]) -> Option<Said> {
    Some(match recognise(seen)? {
        Spoken::Pingpong => because(
            format!("the other end speaks ibv_rc_pingpong's protocol where {wanted} was to come"),
            "start the same test at both ends",
        ),
        Spoken::Perftest => because(
            format!(
                "the other end speaks the protocol of ib_write_bw and its kin where {wanted} was to come"
            ),
            "start the same test at both ends",
        ),
        Spoken::PerftestKey => because(
            format!("the other end tells the address of one more QP where {wanted} was to come"),
            "give both ends the same -q, and start the same test at both",
        ),
        Spoken::Service(name) => because(
            format!("the other end is no RDMA test: {name} answers on that TCP port"),
            "give the port of the waiting end with -p",
        ),
    })
}

/// What the first bytes of a message show its sender to be.
enum Spoken {
    Pingpong,
    Perftest,
    PerftestKey,
    Service(&'static str),
}

fn recognise(seen: &[u8]) -> Option<Spoken> {
    const SERVICES: &[(&[u8], &str)] = &[
        (b"SSH-", "SSH"),
        (b"HTTP/", "HTTP"),
        (b"GET ", "an HTTP client"),
        (&[0x16, 3], "TLS"),
        (b"220 ", "SMTP or FTP"),
    ];
    if let Some((_, name)) = SERVICES.iter().find(|(start, _)| seen.starts_with(start)) {
        return Some(Spoken::Service(name));
    }
    // As far as the 16 bytes of a version reach, where the other test waits for one.
    if hex_fields(seen, &[4, 6]) {
        return Some(Spoken::Pingpong);
    }
    if hex_fields(seen, &[4, 4]) {
        return Some(Spoken::PerftestKey);
    }
    is_version(seen).then_some(Spoken::Perftest)
}

/// Whether it starts with hexadecimal fields of these lengths, each ended by a colon.
fn hex_fields(seen: &[u8], lengths: &[usize]) -> bool {
    let mut rest = seen;
    lengths.iter().all(|length| match rest.split_at_checked(*length) {
        Some((field, after)) if field.iter().all(u8::is_ascii_hexdigit) && after.first() == Some(&b':') => {
            rest = &after[1..];
            true
        }
        _ => false,
    })
}

/// `6.06` and zeros.
fn is_version(seen: &[u8]) -> bool {
    let text = seen.split(|byte| *byte == 0).next().unwrap_or_default();
    let (point, digits): (Vec<u8>, Vec<u8>) = text.iter().partition(|byte| **byte == b'.');
    seen.len() > text.len() && point.len() == 1 && digits.len() > 1 && digits.iter().all(u8::is_ascii_digit)
}

fn closed(wanted: &str, after_bytes: usize) -> Said {
    let cause = match after_bytes {
        0 => format!("the other end closed the connection instead of sending {wanted}"),
        bytes => format!("the other end closed the connection after {bytes} bytes of {wanted}"),
    };
    because(
        cause,
        "see its output: a stock tool closes without a word when its own test failed or it cannot use what it was told \
         (another test, GIDs of unlike families, unlike -s or -q)",
    )
}

fn broken(wanted: &str, errno: i32) -> Said {
    let cause = match errno {
        errno::ECONNRESET => format!("the other end ended while {wanted} was under way"),
        _ => format!("the TCP connection broke while {wanted} was under way"),
    };
    because(cause, "see the other end's output")
}

fn timeout(wanted: &str, after_bytes: usize, seconds: u64) -> Said {
    let cause = match after_bytes {
        0 => format!("the other end sent nothing for {seconds} s where {wanted} was to come"),
        bytes => format!("the other end sent {bytes} bytes of {wanted} and no more for {seconds} s"),
    };
    because(cause, "is it the same test with the same options, and does it still run? See its output")
}

fn unlike(what: Unlike, here: &str, there: Option<&str>) -> Said {
    let (name, cure) = match what {
        Unlike::Test => ("test", "start the same test at both ends"),
        Unlike::Size => ("message size (-s)", "give both ends the same -s"),
        Unlike::QueuePairs => ("number of QPs (-q)", "give both ends the same -q"),
        Unlike::Direction => ("direction (-b)", "give -b at both ends, or at none"),
        Unlike::Iterations => ("number of messages (-n)", "give both ends the same -n"),
        Unlike::Duration => ("end of the test (-D or -n)", "give both ends the same -D, or none"),
        Unlike::Addressing => {
            let cure = "give both ends --ipv6, or none; with a stock tool at one end give both the index of a GID of one \
                        family (-x), or none";
            ("addressing", cure)
        }
    };
    let there = there.map_or_else(|| "another there".to_owned(), |there| format!("{there} there"));
    because(format!("the ends differ in their {name}: {here} here, {there}"), cure)
}
