//! Rows of what `rocade verify` and `rocade env` say in Pods of many kinds: rightly made ones, and each way in which people
//! make them wrong. Owns how a Pod is asked and what is held against the answer; the Pods are in the folder.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::pods::NAMESPACE;
use super::{Chain, Row, both_streams};

mod gids;
mod kinds;
mod memlock;
mod own;
mod unserved;

/// They need the nodes alone, and leave the agent with the configuration of `deploy/lab`.
pub fn verified_rows() -> Vec<Row<Chain>> {
    let parts = [kinds::rows(), gids::rows(), own::rows(), memlock::rows(), unserved::rows()];
    parts.into_iter().flatten().collect()
}

/// A container of a Pod of the namespace, by both names.
#[derive(Debug, Clone, Copy)]
struct Container(&'static str, &'static str);

/// The container of Pods that have one.
const TEST: &str = "test";

/// What a container was told.
struct Told {
    /// Exit code of `rocade verify`.
    exit: i32,
    verdict: Value,
    /// Exit code of `rocade env`.
    env_exit: i32,
    environment: Value,
    /// Exit code of `rocade verify --probe`.
    probe_exit: i32,
    /// All of it as text.
    said: String,
}

/// What it must be told.
struct Wanted<'a> {
    /// Exit code of `rocade verify`, also with `--probe`.
    exit: i32,
    /// `SEVERITY CODE` of every finding, in their order: the first error is the reason.
    found: &'a [&'a str],
    /// HCAs and ports for a job: `rxe1:1`.
    devices: &'a [&'a str],
    /// The network of their addresses, where there is one.
    range: Option<&'a str>,
}

impl Container {
    /// A shell line in it, as kubectl runs it.
    fn output(self, chain: &Chain, line: &str) -> Result<std::process::Output> {
        let mut exec = chain.cluster.kubectl_command();
        exec.args(["exec", "-n", NAMESPACE, self.0, "-c", self.1, "--", "sh", "-c", line]);
        exec.output().with_context(|| format!("kubectl exec in {}", self.0))
    }

    /// Asks `rocade verify` with these arguments, `rocade env` and `rocade verify --probe`.
    fn ask(self, chain: &Chain, arguments: &str) -> Result<Told> {
        self.ask_in(chain, arguments, "sh -c")
    }

    /// The same, with the shell line handed to `shell`.
    fn ask_in(self, chain: &Chain, arguments: &str, shell: &str) -> Result<Told> {
        let line = format!(
            "rocade verify -o json {arguments}; echo \"@$?\"; rocade env -q -o json 2>/dev/null; echo \"@$?\"; \
             rocade verify --probe; echo \"@$?\""
        );
        let line = format!("{shell} '{line}'");
        let said = both_streams(&self.output(chain, &line)?);
        parse(&said).with_context(|| format!("{}/{}: {line}\n{said}", self.0, self.1))
    }
}

/// Three answers, each with its exit code behind `@`.
fn parse(said: &str) -> Result<Told> {
    let mut rest = said.to_owned();
    let mut next = || -> Result<(String, i32)> {
        let at = rest.find('@').context("an exit code is missing")?;
        let (text, after) = (rest[..at].to_owned(), rest[at + 1..].to_owned());
        let (code, after) = after.split_once('\n').unwrap_or((&after, ""));
        let code = code.parse().context("an exit code")?;
        rest = after.to_owned();
        Ok((text, code))
    };
    let document = |text: &str| -> Result<Value> {
        let at = text.find('{').context("no document")?;
        Ok(serde_json::from_str(&text[at..])?)
    };
    let (verify, env, probe) = (next()?, next()?, next()?);
    ensure!(probe.0.trim().is_empty(), "the probe says {}", probe.0);
    Ok(Told {
        exit: verify.1,
        verdict: document(&verify.0)?,
        env_exit: env.1,
        environment: document(&env.0)?,
        probe_exit: probe.1,
        said: said.to_owned(),
    })
}

impl Told {
    /// Holds it against what is wanted; gives the verdict's reason.
    fn hold(&self, wanted: &Wanted<'_>) -> Result<String> {
        let found = self.found()?;
        let seen = (self.exit, self.probe_exit, self.verdict["pass"].as_bool());
        let exits = (wanted.exit, wanted.exit, Some(wanted.exit == 0));
        ensure!(seen == exits, "exit codes and verdict are {seen:?}, wanted {exits:?}\n{}", self.said);
        ensure!(found == wanted.found, "found {found:?}, wanted {:?}\n{}", wanted.found, self.said);
        let usable = i32::from(wanted.devices.is_empty());
        ensure!(self.env_exit == usable, "rocade env ends with {}\n{}", self.env_exit, self.said);
        let list = (!wanted.devices.is_empty()).then(|| wanted.devices.join(","));
        for (name, wanted) in [
            ("NCCL_IB_HCA", list.as_ref().map(|list| format!("={list}"))),
            ("UCX_NET_DEVICES", list.clone()),
            ("NCCL_IB_ADDR_RANGE", wanted.range.map(str::to_owned)),
            ("NCCL_IB_GID_INDEX", None),
            ("NCCL_SOCKET_IFNAME", Some("=eth0".to_owned())),
        ] {
            let seen = super::environment::value(&self.environment, name)?;
            ensure!(seen == wanted, "{name} is {seen:?}, wanted {wanted:?}\n{}", self.said);
        }
        Ok(self.verdict["reason"].as_str().context("no reason")?.to_owned())
    }

    fn found(&self) -> Result<Vec<String>> {
        let findings = self.verdict["findings"].as_array().context("no findings")?;
        let name = |it: &Value| Some(format!("{} {}", it["severity"].as_str()?, it["code"].as_str()?));
        findings.iter().map(|it| name(it).context("no code")).collect()
    }

    /// A finding's cure with the lines for the manifest.
    fn cure(&self, code: &str) -> Result<String> {
        let mut findings = self.verdict["findings"].as_array().into_iter().flatten();
        let found =
            findings.find(|it| it["code"] == code).with_context(|| format!("no {code}\n{}", self.said))?;
        let lines = found["lines"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let cure = found["cure"].as_str().into_iter().chain(lines);
        Ok(cure.collect::<Vec<_>>().join("\n"))
    }

    /// What is told of an HCA that was granted or opens.
    fn hca(&self, name: &str) -> Result<&Value> {
        let mut hcas = self.verdict["hcas"].as_array().into_iter().flatten();
        hcas.find(|hca| hca["hca"] == name).with_context(|| format!("nothing of {name}\n{}", self.said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_answers_are_told_apart_by_their_exit_codes() {
        let told = parse("{\"pass\":false}\n@1\nrocade: odd\n{\"a\":2}\n@0\n@1\n").unwrap();
        assert_eq!((told.exit, told.env_exit, told.probe_exit), (1, 0, 1));
        assert_eq!((&told.verdict["pass"], &told.environment["a"]), (&false.into(), &2.into()));
        assert!(parse("{}\n@0\n{}\n@0\nnoise\n@0\n").is_err(), "a probe says nothing");
    }
}
