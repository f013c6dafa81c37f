//! etcd, API server, scheduler and controller manager, native processes inside the holder, and the secrets of a run.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::Result;

use super::plan;
use crate::cache::Cache;
use crate::holder::Holder;
use crate::{command, debian, kubernetes};

/// The programs of the control plane.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    etcd: PathBuf,
    api_server: PathBuf,
    scheduler: PathBuf,
    controller_manager: PathBuf,
    pub(super) kubectl: PathBuf,
}

impl Programs {
    pub(super) fn prepare(cache: &Cache) -> Result<Self> {
        let etcd = debian::unpack(cache, "sid", &["etcd-server"])?.join("usr/bin/etcd");
        Ok(Self {
            etcd,
            api_server: kubernetes::binary(cache, "kube-apiserver")?,
            scheduler: kubernetes::binary(cache, "kube-scheduler")?,
            controller_manager: kubernetes::binary(cache, "kube-controller-manager")?,
            kubectl: kubernetes::binary(cache, "kubectl")?,
        })
    }
}

/// Keys of one run, in its folder.
#[derive(Debug, Clone)]
pub(super) struct Secrets {
    /// Serves the API server and kubelets, signs service accounts, and is its own authority.
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) token: String,
    pub(super) kubeconfig: PathBuf,
    /// OpenSSH's private key; the public one lies beside it.
    pub(super) login: PathBuf,
}

impl Secrets {
    pub(super) fn make(folder: &Path) -> Result<Self> {
        let at = |name: &str| folder.join(name);
        let (certificate, key, login) = (at("lab.crt"), at("lab.key"), at("login"));
        let mut addresses =
            vec![plan::LAB_ADDRESS.to_string(), plan::API_SERVICE_ADDRESS.into(), "127.0.0.1".into()];
        addresses.extend((1..=plan::NODES.len()).map(plan::address));
        let names = addresses.iter().map(|address| format!("IP:{address}")).collect::<Vec<_>>().join(",");
        let names = format!("subjectAltName=DNS:kubernetes.default.svc,{names}");
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        openssl.args(["-days", "30", "-subj", "/CN=rocade-lab", "-addext", &names]);
        // A server that shows a CA's certificate as its own is refused by some.
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE", "-out"]).arg(&certificate);
        command::run(openssl.arg("-keyout").arg(&key))?;
        let mut keygen = Command::new("ssh-keygen");
        command::run(keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "rocade-lab", "-f"]).arg(&login))?;
        let token =
            command::run_text(Command::new("openssl").args(["rand", "-hex", "16"]))?.trim().to_string();
        std::fs::write(at("tokens.csv"), format!("{token},lab,lab,system:masters\n"))?;
        let kubeconfig = at("kubeconfig");
        std::fs::write(
            &kubeconfig,
            plan::kubeconfig(&token, &certificate.display().to_string()).to_string(),
        )?;
        Ok(Self { certificate, key, token, kubeconfig, login })
    }
}

/// Starts etcd and the API server, which waits for etcd by itself.
pub(super) fn start_api(
    holder: &Holder,
    programs: &Programs,
    secrets: &Secrets,
) -> Result<Vec<(String, Child)>> {
    let mut etcd = holder.command(&programs.etcd);
    etcd.arg("--data-dir").arg(holder.folder().join("etcd")).args(["--unsafe-no-fsync", "--log-level=warn"]);
    let mut api = holder.command(&programs.api_server);
    api.args(["--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0", "--secure-port=443"]);
    api.arg(format!("--advertise-address={}", plan::LAB_ADDRESS));
    api.args([
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
    ]);
    api.args([
        "--service-account-issuer=https://kubernetes.default.svc",
        "--kubelet-preferred-address-types=InternalIP",
    ]);
    let (certificate, key) = (secrets.certificate.display(), secrets.key.display());
    api.arg(format!("--tls-cert-file={certificate}")).arg(format!("--tls-private-key-file={key}"));
    api.arg(format!("--service-account-key-file={certificate}"))
        .arg(format!("--service-account-signing-key-file={key}"));
    api.arg(format!("--token-auth-file={}", holder.folder().join("tokens.csv").display()));
    let started = [("etcd", etcd), ("kube-apiserver", api)];
    started
        .into_iter()
        .map(|(name, mut command)| Ok((name.into(), holder.spawn(name, &mut command)?)))
        .collect()
}

/// Starts scheduler and controller manager; the API server must answer.
pub(super) fn start_control(
    holder: &Holder,
    programs: &Programs,
    secrets: &Secrets,
) -> Result<Vec<(String, Child)>> {
    let access = format!("--kubeconfig={}", secrets.kubeconfig.display());
    let common = [access.as_str(), "--leader-elect=false", "--secure-port=0"];
    let mut scheduler = holder.command(&programs.scheduler);
    scheduler.args(common);
    let mut manager = holder.command(&programs.controller_manager);
    manager.args(common).arg(format!("--root-ca-file={}", secrets.certificate.display()));
    manager.arg(format!("--service-account-private-key-file={}", secrets.key.display()));
    let started = [("kube-scheduler", scheduler), ("kube-controller-manager", manager)];
    started
        .into_iter()
        .map(|(name, mut command)| Ok((name.into(), holder.spawn(name, &mut command)?)))
        .collect()
}
