//! `rocade env`: the variables by which communication libraries use the HCAs that this process was granted. The rules
//! are core's; here are the flags, what is read, and the forms.

mod render;

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, bail};
use clap::ValueEnum;
use rocade_core::environment::{
    By, Environment, Given, NcclSource, NcclVersion, Network, Reach, environment, version_of_library,
};
use rocade_core::pod::Tried;
use rocade_core::{Host, PciAddress, judge};
use rocade_host::{Root, Scope, read_parts, read_variables, try_verbs};

use crate::outcome::{Outcome, print, tell};
use crate::source::Source;

/// Arguments of `rocade env`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    pub(crate) wish: Wish,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Shell)]
    output: Form,
    /// Say nothing of variables on stderr, but for what does not fit
    #[arg(short, long)]
    quiet: bool,
}

/// What `rocade env` and `rocade exec` are asked for alike.
#[derive(Debug, clap::Args)]
pub(crate) struct Wish {
    /// The NCCL that will run, instead of what the name of its library's file says
    #[arg(long, value_name = "VERSION")]
    nccl: Option<NcclVersion>,
    /// Also give GID indexes, where all ports agree; they are right in this Pod alone
    #[arg(long)]
    gid_index: bool,
    /// The fabric's network, instead of what addresses and routes of the ports' interfaces say
    #[arg(long, value_name = "NETWORK/PREFIX", value_parser = parse_network)]
    addr_range: Option<Network>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Lines of `export` for `eval "$(rocade env)"`
    Shell,
    /// Every variable with its reason, for people
    Table,
    /// One JSON document
    Json,
    /// A file for NCCL: /etc/nccl.conf of this Pod
    Nccl,
    /// A file for UCX: /etc/ucx/ucx.conf of this Pod
    Ucx,
}

/// Tells and prints. Nothing usable is a failure.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let seen = See::of(&args.source, &args.wish)?;
    let reach = if args.output == Form::Nccl { Reach::OwnFile } else { Reach::Handed };
    let told = seen.tell(&args.wish, reach);
    if !args.quiet && args.output != Form::Table {
        say_why(&told);
    }
    say_findings(&told);
    print(&match args.output {
        Form::Shell => render::shell(&told),
        Form::Table => render::table(&told),
        Form::Json => render::json(&told)?,
        Form::Nccl => render::nccl_conf(&told),
        Form::Ucx => render::ucx_conf(&told),
    })?;
    Ok(if told.is_usable() { Outcome::Good } else { Outcome::Failed })
}

/// What was seen of the host and of this process.
pub(crate) struct See {
    host: Host,
    variables: BTreeMap<String, String>,
    tried: Tried,
    library: Option<(NcclVersion, String)>,
    gpus: Option<Vec<PciAddress>>,
}

impl See {
    /// Reads the host, live or recorded, and tries the verbs devices of a live one.
    pub(crate) fn of(source: &Source, wish: &Wish) -> anyhow::Result<See> {
        let mut seen = source.read_by(|root| {
            let mut host = read_parts(root, Scope { counters: false, ..Scope::ALL });
            judge(&mut host);
            let (tried, gpus) = (try_verbs(root, &host), read_gpus(root));
            See { host, variables: read_variables(root), tried, library: None, gpus }
        })?;
        if wish.nccl.is_none() && source.from.is_none() {
            seen.library = library::find();
        }
        Ok(seen)
    }

    /// Takes this process's variables instead of a recorded one's; grants stay the recorded ones.
    pub(crate) fn with_own_variables(mut self) -> See {
        self.variables.retain(|name, _| name.starts_with("ROCADE_"));
        let own = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        self.variables.extend(own.map(|(name, value)| (name, value.to_string_lossy().into_owned())));
        self
    }

    pub(crate) fn tell(&self, wish: &Wish, reach: Reach) -> Environment {
        let (nccl, nccl_source) = match (wish.nccl, &self.library) {
            (Some(version), _) => (version, NcclSource::Asked),
            (None, Some((version, file))) => (*version, NcclSource::Library(file.clone())),
            (None, None) => (NcclVersion::ASSUMED, NcclSource::Assumed),
        };
        let given = Given {
            variables: &self.variables,
            tried: &self.tried,
            nccl,
            nccl_source,
            gid_index: wish.gid_index,
            range: wish.addr_range,
            reach,
            gpus: self.gpus.as_deref(),
        };
        environment(&self.host, &given)
    }
}

/// The GPUs that NVIDIA's container runtime shows in this container; None where there is no such directory.
fn read_gpus(root: &Root) -> Option<Vec<PciAddress>> {
    let names = root.list("/proc/driver/nvidia/gpus").ok()?;
    Some(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
}

/// Says on stderr why each variable was set or left unset.
pub(crate) fn say_why(told: &Environment) {
    for (what, why) in &told.left_out {
        tell(&format!("rocade: {what} is left out: {why}"));
    }
    tell(&format!(
        "rocade: NCCL {} is reckoned with, {}",
        told.nccl,
        render::source_in_words(&told.nccl_source)
    ));
    for variable in &told.variables {
        let value = match &variable.value {
            Some(value) => format!("={value}"),
            None => " unset".to_owned(),
        };
        tell(&format!("rocade: {}{value}: {} [{}]", variable.name, variable.why, variable.rule));
    }
}

/// Says on stderr what of the user's settings counts above the rules, and what does not fit.
pub(crate) fn say_findings(told: &Environment) {
    told.findings.iter().for_each(|finding| tell(&format!("rocade: {finding}")));
}

/// Names the variables that the user has set.
pub(crate) fn say_users(told: &Environment) {
    for variable in told.variables.iter().filter(|variable| variable.by == By::User) {
        tell(&format!("rocade: {} is {}", variable.name, variable.why));
    }
}

fn parse_network(text: &str) -> anyhow::Result<Network> {
    let Some((address, prefix)) = text.split_once('/') else {
        bail!("a network is ADDRESS/PREFIX, as 10.0.0.0/8")
    };
    let address: IpAddr = address.parse().context("the address")?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    match prefix.parse() {
        Ok(prefix) if prefix <= most => Ok((address, prefix)),
        _ => bail!("a prefix is a number up to {most}"),
    }
}

mod library {
    //! The NCCL that a job of this container finds, by the names of files.

    use std::fs;
    use std::path::PathBuf;

    use super::{NcclVersion, version_of_library};

    /// Where the loader and NVIDIA's packages keep libraries.
    const FOLDERS: &[&str] = &[
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/local/lib",
        "/usr/local/nccl/lib",
        "/usr/local/cuda/lib64",
        "/opt/nccl/build/lib",
    ];

    /// The first of LD_LIBRARY_PATH, then of the usual folders, whose file says its version.
    pub(super) fn find() -> Option<(NcclVersion, String)> {
        let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let named = std::env::split_paths(&named).filter(|folder| folder.is_absolute());
        named.chain(FOLDERS.iter().map(PathBuf::from)).find_map(|folder| {
            let entries = fs::read_dir(folder).ok()?;
            let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
            let known =
                files.filter_map(|file| Some((version_of_library(file.file_name()?.to_str()?)?, file)));
            known.max().map(|(version, file)| (version, file.display().to_string()))
        })
    }
}
