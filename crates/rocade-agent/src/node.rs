//! The one writer of the node's state. It takes in what sources, looks, the kubelet and the resources' own loops report,
//! has core plan and judge, and publishes what came of it. It never waits for anything but the next report or the time
//! of the next thing to do.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rocade_core::config::Config;
use rocade_core::health::Tracker;
use rocade_core::plan::{Grant, Holdings, OtherOffers, Pool, Refused, findings, plan};
use rocade_core::{Finding, Host, LinkLayer, ResourceName};
use rocade_host::Root;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::config::{ConfigSource, Configured};
use crate::error::Error;
use crate::look::{start_states, start_whole};
use crate::pod_resources::{KubeletView, ask_kubelet};
use crate::state::{Granted, Holder, LastError, Look, NodeState, Registration, ResourceState, Way};

mod grants;
mod kubelet_view;
mod listing;
mod report;

use kubelet_view::Views;
use listing::{Held, Listed};

/// From an event to the look that it asks for: what belongs together comes together.
const DEBOUNCE: Duration = Duration::from_millis(20);

/// From an interface's event to the look at the whole host: by then ports have followed their interfaces.
const SETTLE: Duration = Duration::from_millis(300);

/// Between two looks at the whole host, however many events come.
const WHOLE_REST: Duration = Duration::from_millis(200);

/// Between two looks at the whole host while events tell what happens, and while they cannot be had.
const NET: (Duration, Duration) = (Duration::from_secs(900), Duration::from_secs(60));

/// Between two looks at InfiniBand port states, of which no event tells.
const INFINIBAND: Duration = Duration::from_secs(15);

/// From a grant or a registration to the state that tells of it.
const SOON: Duration = Duration::from_millis(20);

/// From the start to the first list, where the kubelet does not say what Pods hold.
const FIRST: Duration = Duration::from_secs(2);

/// Errors that are kept.
const ERRORS: usize = 32;

/// What the writer is told.
pub(crate) enum Notice {
    /// Something happened on the host.
    Hint(Hint),
    /// Whether the kernel tells what happens.
    Events(bool),
    /// A look at the whole host ended.
    Looked(Box<Host>, Look),
    /// A look at port states ended; what did not answer.
    States(Box<Host>, Vec<PathBuf>),
    /// The kubelet asks for devices.
    Allocate(Ask),
    /// A resource's registration is another.
    Registration(ResourceName, Registration),
    /// The kubelet's own view was asked for.
    Kubelet(Result<KubeletView, String>),
    /// Something in the directory of plugins or of the kubelet's own socket changed.
    KubeletChanged,
    /// The configuration may be another.
    ConfigChanged,
    /// The configuration was read again.
    Config(Result<Configured, Error>),
}

/// What an event asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hint {
    /// Port states at once, the rest a little later.
    States,
    /// The whole host.
    Whole,
}

/// A request for devices.
pub(crate) struct Ask {
    pub(crate) resource: ResourceName,
    /// IDs for each container.
    pub(crate) ids: Vec<Vec<String>>,
    pub(crate) reply: oneshot::Sender<Result<Vec<Grant>, Denied>>,
}

/// Why no devices are given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Denied {
    /// The resource is not configured any more.
    #[error("{0} is offered no more")]
    NotOffered(ResourceName),
    /// The plan says no.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// When what is to be done.
#[derive(Debug, Default)]
struct Due {
    states: Option<Instant>,
    whole: Option<Instant>,
    health: Option<Instant>,
    kubelet: Option<Instant>,
    /// The latest time for the first list.
    first: Option<Instant>,
    config: Option<Instant>,
    publish: Option<Instant>,
}

impl Due {
    fn next(&self) -> Option<Instant> {
        let all = [self.states, self.whole, self.health, self.kubelet, self.first, self.config, self.publish];
        all.into_iter().flatten().min()
    }
}

/// Brings a time forward, never back.
fn hasten(due: &mut Option<Instant>, at: Instant) {
    *due = Some(due.map_or(at, |due| due.min(at)));
}

/// Whether it is time, and then no more.
fn take_due(due: &mut Option<Instant>, now: Instant) -> bool {
    due.take_if(|at| *at <= now).is_some()
}

/// What the writer writes from.
pub(crate) struct Node {
    root: Arc<Root>,
    reload: Option<ConfigSource>,
    pod_resources: PathBuf,
    notices: mpsc::UnboundedReceiver<Notice>,
    tell: mpsc::UnboundedSender<Notice>,
    write: watch::Sender<Arc<NodeState>>,
    started: (Instant, SystemTime),
    due: Due,
    has_events: bool,
    /// When the look that runs was started.
    whole_since: Option<Instant>,
    states_since: Option<Instant>,
    /// When the port states that were read last were looked at.
    states_began: Option<Instant>,
    whole_ended: Option<Instant>,
    config: Arc<Config>,
    config_error: Option<Arc<LastError>>,
    config_failures: u64,
    host: Arc<Host>,
    look: Option<Look>,
    /// The first look, while the kubelet did not say yet what Pods hold.
    first: Option<Look>,
    /// Those of the configuration, then those that it has no more and Pods still hold.
    pools: Vec<Pool>,
    /// What is odd about them, and what else is offered of their HCAs.
    findings: Vec<Finding>,
    others: OtherOffers,
    tracker: Tracker,
    holdings: Holdings,
    /// How often they have changed.
    holdings_changes: u64,
    holders: Option<BTreeMap<ResourceName, Arc<BTreeMap<String, Holder>>>>,
    listed: BTreeMap<ResourceName, Listed>,
    views: Views,
    registrations: BTreeMap<ResourceName, Registration>,
    grants: BTreeMap<(ResourceName, String), Arc<Granted>>,
    errors: VecDeque<Arc<LastError>>,
    /// Requests that came before anything was known.
    early: Vec<Ask>,
    /// Whether the kubelet was asked for its view and answered, or could not.
    is_kubelet_asked: bool,
}

/// What a writer is made of.
pub(crate) struct Setup {
    pub(crate) config: Arc<Config>,
    pub(crate) root: Arc<Root>,
    pub(crate) reload: Option<ConfigSource>,
    /// The kubelet's socket of grants.
    pub(crate) pod_resources: PathBuf,
}

impl Node {
    /// A writer and where its states are read; the first says that nothing is known yet.
    pub(crate) fn new(
        setup: Setup,
        (tell, notices): (mpsc::UnboundedSender<Notice>, mpsc::UnboundedReceiver<Notice>),
    ) -> (Node, watch::Receiver<Arc<NodeState>>) {
        let Setup { config, root, reload, pod_resources } = setup;
        let host = Arc::new(Host::default());
        let (write, states) = watch::channel(Arc::new(NodeState {
            generation: 0,
            config: Arc::clone(&config),
            config_error: None,
            config_failures: 0,
            host: Arc::clone(&host),
            look: None,
            hcas: BTreeMap::new(),
            resources: Vec::new(),
            grants: Vec::new(),
            errors: VecDeque::new(),
        }));
        let mut node = Node {
            root,
            reload,
            pod_resources,
            notices,
            tell,
            write,
            started: (Instant::now(), SystemTime::now()),
            due: Due { whole: Some(Instant::now()), kubelet: Some(Instant::now()), ..Due::default() },
            has_events: true,
            whole_since: None,
            states_since: None,
            states_began: None,
            whole_ended: None,
            pools: plan(&host, &config),
            config,
            config_error: None,
            config_failures: 0,
            host,
            look: None,
            first: None,
            findings: Vec::new(),
            others: OtherOffers::default(),
            tracker: Tracker::default(),
            holdings: Holdings::default(),
            holdings_changes: 0,
            holders: None,
            listed: BTreeMap::new(),
            views: Views::default(),
            registrations: BTreeMap::new(),
            grants: BTreeMap::new(),
            errors: VecDeque::new(),
            early: Vec::new(),
            is_kubelet_asked: false,
        };
        node.publish();
        (node, states)
    }

    /// Takes in what it is told and publishes what changed. Never ends.
    pub(crate) async fn run(mut self) {
        self.act(Instant::now());
        loop {
            let next = self.due.next();
            let timer = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                notice = self.notices.recv() => match notice {
                    Some(notice) => self.take(notice),
                    None => return std::future::pending().await,
                },
                () = timer => {}
            }
            while let Ok(notice) = self.notices.try_recv() {
                self.take(notice);
            }
            self.act(Instant::now());
        }
    }

    fn take(&mut self, notice: Notice) {
        let now = Instant::now();
        match notice {
            Notice::Hint(hint) => self.heed(hint, now),
            Notice::Events(has) => {
                self.has_events = has;
                self.plan_next_look(now);
            }
            Notice::Looked(host, look) => self.take_host(*host, look),
            Notice::States(host, silent) => self.take_states(&host, silent),
            Notice::Allocate(ask) if self.look.is_none() => self.early.push(ask),
            Notice::Allocate(ask) => self.allocate(ask),
            Notice::Registration(resource, registration) => self.take_registration(resource, registration),
            Notice::Kubelet(view) => self.take_kubelet(view, now),
            Notice::KubeletChanged => self.ask_soon(Duration::from_secs(1)),
            Notice::ConfigChanged => hasten(&mut self.due.config, now + DEBOUNCE),
            Notice::Config(read) => self.take_config(read),
        }
    }

    /// Does what is due.
    fn act(&mut self, now: Instant) {
        if self.states_since.is_none() && take_due(&mut self.due.states, now) {
            self.look_at_states(now);
        }
        if self.whole_since.is_none() && take_due(&mut self.due.whole, now) {
            self.look_at_whole(now);
        }
        if take_due(&mut self.due.health, now) {
            self.tracker.settle(self.clock(now), &self.pools);
            self.relist();
            self.publish();
        }
        if take_due(&mut self.due.kubelet, now) {
            self.ask_kubelet();
        }
        if take_due(&mut self.due.first, now) {
            self.begin();
        }
        if take_due(&mut self.due.config, now) {
            self.read_config();
        }
        if take_due(&mut self.due.publish, now) {
            self.publish();
        }
    }

    fn heed(&mut self, hint: Hint, now: Instant) {
        let rested = self.whole_ended.map_or(now, |ended| ended + WHOLE_REST);
        match hint {
            Hint::States => {
                hasten(&mut self.due.states, now + DEBOUNCE);
                hasten(&mut self.due.whole, rested.max(now + SETTLE));
            }
            Hint::Whole => hasten(&mut self.due.whole, rested.max(now + DEBOUNCE)),
        }
    }

    fn look_at_whole(&mut self, now: Instant) {
        let tell = self.tell.clone();
        let done = move |host, look| drop(tell.send(Notice::Looked(Box::new(host), look)));
        match start_whole(&self.root, &self.config, done) {
            Ok(()) => self.whole_since = Some(now),
            Err(error) => {
                self.keep_error("the host", &format!("no thread to look at it: {error}"));
                hasten(&mut self.due.whole, now + INFINIBAND);
            }
        }
    }

    fn look_at_states(&mut self, now: Instant) {
        let members = self.pools.iter().flat_map(|pool| &pool.members);
        let hcas: std::collections::BTreeSet<_> = members.map(|member| member.hca.clone()).collect();
        if hcas.is_empty() {
            return;
        }
        let tell = self.tell.clone();
        let done = move |host, silent| drop(tell.send(Notice::States(Box::new(host), silent)));
        match start_states(&self.root, &self.host, hcas, done) {
            Ok(()) => self.states_since = Some(now),
            Err(error) => {
                self.keep_error("the host", &format!("no thread to look at port states: {error}"));
                hasten(&mut self.due.states, now + INFINIBAND);
            }
        }
    }

    fn take_host(&mut self, mut host: Host, look: Look) {
        let now = Instant::now();
        let began = self.whole_since.take();
        self.whole_ended = Some(now);
        for path in &look.silent {
            self.keep_error(&path.display().to_string(), "does not answer; the rest was read without it");
        }
        // Port states that were read meanwhile are newer than these.
        if self.states_began > began {
            copy_states(&self.host, &mut host);
            hasten(&mut self.due.states, now);
        }
        if *self.host != host || self.generation() <= 1 {
            self.host = Arc::new(host);
            self.replan();
        }
        self.plan_next_look(now);
        match self.is_begun() {
            true => self.look = Some(look),
            false => {
                self.first = Some(look);
                self.due.first = Some(self.started.0 + FIRST);
                if self.is_kubelet_asked {
                    self.begin();
                }
            }
        }
        self.publish();
    }

    fn is_begun(&self) -> bool {
        self.look.is_some()
    }

    /// From now on lists are sent: the host was looked at, and the kubelet was asked what Pods hold.
    fn begin(&mut self) {
        self.due.first = None;
        let Some(look) = self.first.take() else { return };
        self.look = Some(look);
        self.publish();
        for ask in std::mem::take(&mut self.early) {
            self.allocate(ask);
        }
    }

    fn take_states(&mut self, read: &Host, silent: Vec<PathBuf>) {
        let now = Instant::now();
        let began = self.states_since.take();
        // A look at the whole host that began later reads what is newer.
        if self.whole_since.is_none() || self.whole_since < began {
            self.states_began = began;
            let mut host = (*self.host).clone();
            copy_states(read, &mut host);
            if host != *self.host {
                self.host = Arc::new(host);
                self.replan();
                self.publish();
            }
        }
        for path in silent {
            self.keep_error(&path.display().to_string(), "does not answer; the rest was read without it");
        }
        self.plan_next_look(now);
    }

    /// What comes though nothing happens.
    fn plan_next_look(&mut self, now: Instant) {
        let asked = self.config.update_interval_s.map(Duration::from_secs);
        let period = asked.unwrap_or(if self.has_events { NET.0 } else { NET.1 });
        if self.whole_since.is_none() {
            // Beyond the clock's end is never.
            let last = self.whole_ended.unwrap_or(now);
            if let Some(at) = last.checked_add(period) {
                hasten(&mut self.due.whole, at.max(now));
            }
        }
        let infiniband = |pool: &Pool| {
            let ports = pool.members.iter().flat_map(|member| {
                let hca = self.host.hca(member.hca.as_str());
                member.ports.iter().filter_map(move |port| hca?.port(*port))
            });
            ports.into_iter().any(|port| port.link_layer == LinkLayer::InfiniBand)
        };
        if self.states_since.is_none() && self.pools.iter().any(infiniband) {
            hasten(&mut self.due.states, now + INFINIBAND);
        }
    }

    /// Plans anew after the host or the configuration changed.
    fn replan(&mut self) {
        let old = std::mem::replace(&mut self.pools, plan(&self.host, &self.config));
        let is_over = |pool: &&Pool| self.pools.iter().all(|new| new.resource != pool.resource);
        let held = old.iter().filter(is_over).filter(|pool| self.holdings.holds_any(&pool.resource));
        let removed: Vec<Pool> = held.map(Pool::removed).collect();
        self.pools.extend(removed);
        let clock = self.clock(Instant::now());
        let (holdings, asked) = (&self.holdings, self.holders.is_some());
        self.tracker.observe(clock, &self.host, &self.pools, |pool, member| {
            !asked || listing::is_held(holdings, pool, member)
        });
        report::log_pools(&old, &self.pools);
        self.tell_findings();
        self.check_grants();
        self.relist();
    }

    /// Says once what is odd about the plan.
    fn tell_findings(&mut self) {
        let found = findings(&self.host, &self.pools, &self.others);
        report::log_findings(&self.findings, &found);
        self.findings = found;
    }

    /// Something was granted: that concerns the lists only where an HCA given by one ID is not to be had by another.
    fn granted_anew(&mut self) {
        if self.pools.iter().any(|pool| pool.share().is_some() || pool.exclusive_netns) {
            self.holdings_changes += 1;
            self.relist();
        }
    }

    /// Makes the lists anew of which something changed.
    fn relist(&mut self) {
        let held = Held { holdings: &self.holdings, changes: self.holdings_changes };
        let mut changed = false;
        for pool in &self.pools {
            let listed = self.listed.entry(pool.resource.clone()).or_default();
            changed |= listed.update(pool, &self.tracker, held, self.config.topology_hints);
        }
        self.listed.retain(|resource, _| self.pools.iter().any(|pool| pool.resource == *resource));
        let next = self.tracker.next_change(&self.pools);
        self.due.health = next.and_then(|at| self.started.0.checked_add(at));
        if changed {
            self.views.forget();
            self.ask_soon(Duration::from_secs(1));
        }
    }

    fn clock(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started.0)
    }

    fn generation(&self) -> u64 {
        self.write.borrow().generation
    }

    fn publish_soon(&mut self) {
        hasten(&mut self.due.publish, Instant::now() + SOON);
    }

    fn publish(&mut self) {
        self.due.publish = None;
        let resource = |pool: &Pool| {
            let name = &pool.resource;
            let listing = self.listed.get(name).map(|listed| Arc::clone(&listed.listing));
            ResourceState {
                pool: self.shared_pool(pool),
                listing: listing.unwrap_or_default(),
                registration: self
                    .registrations
                    .get(name)
                    .cloned()
                    .unwrap_or_else(|| Registration::waiting(Way::Kubelet)),
                holders: self.holders.as_ref().map(|all| all.get(name).cloned().unwrap_or_default()),
                allocatable: self.views.allocatable(name),
                repairs: self.views.repairs(name),
            }
        };
        let resources = self.pools.iter().map(resource).collect();
        let state = NodeState {
            generation: self.generation() + 1,
            config: Arc::clone(&self.config),
            config_error: self.config_error.clone(),
            config_failures: self.config_failures,
            host: Arc::clone(&self.host),
            look: self.look.clone(),
            hcas: self.hca_states(),
            resources,
            grants: self.distinct_grants(),
            errors: self.errors.clone(),
        };
        report::log_health(&self.write.borrow().hcas, &state.hcas);
        self.write.send_replace(Arc::new(state));
    }

    /// The pool as it was published before, where it is the same.
    fn shared_pool(&self, pool: &Pool) -> Arc<Pool> {
        let old = self.write.borrow();
        match old.resource(&pool.resource).filter(|old| *old.pool == *pool) {
            Some(old) => Arc::clone(&old.pool),
            None => Arc::new(pool.clone()),
        }
    }

    fn take_registration(&mut self, resource: ResourceName, registration: Registration) {
        let before = self.registrations.get(&resource);
        let is_news =
            before.and_then(|before| before.last_error.as_ref()) != registration.last_error.as_ref();
        if registration.streams > 0 && before.is_none_or(|before| before.streams == 0) {
            self.ask_soon(Duration::from_secs(1));
        }
        if let Some(error) = registration.last_error.clone().filter(|_| is_news) {
            self.keep(error);
        }
        self.registrations.insert(resource, registration);
        self.publish_soon();
    }

    fn ask_soon(&mut self, wait: Duration) {
        hasten(&mut self.due.kubelet, Instant::now() + wait);
    }

    fn ask_kubelet(&mut self) {
        let (path, tell) = (self.pod_resources.clone(), self.tell.clone());
        tokio::spawn(async move {
            let view = ask_kubelet(&path).await;
            let _ = tell.send(Notice::Kubelet(view));
        });
    }

    fn read_config(&mut self) {
        let Some(source) = self.reload.clone() else { return };
        let tell = self.tell.clone();
        tokio::spawn(async move { tell.send(Notice::Config(source.read().await)) });
    }

    fn take_config(&mut self, read: Result<Configured, Error>) {
        match read {
            Ok(Configured { config, findings, .. }) => {
                if self.config_error.take().is_some() {
                    tracing::info!("the configuration that is there is good");
                    self.publish_soon();
                }
                if config == *self.config {
                    return;
                }
                findings.iter().for_each(|finding| tracing::warn!("{finding}"));
                tracing::info!(resources = config.resources.len(), "a new configuration is in force");
                self.config = Arc::new(config);
                // Another configuration may need more of the host to be known.
                self.heed(Hint::Whole, Instant::now());
                self.replan();
                self.publish();
            }
            Err(error) => {
                let text = error.chain();
                if self.config_error.as_ref().is_none_or(|old| old.text != text) {
                    tracing::error!(
                        error = text,
                        "a new configuration is refused, the one before stays in force"
                    );
                    let error = Arc::new(report::error("the configuration", &text));
                    self.config_error = Some(Arc::clone(&error));
                    self.config_failures += 1;
                    self.keep(error);
                    self.publish();
                }
            }
        }
    }

    /// Logs an error and keeps it for those who ask.
    fn keep_error(&mut self, subject: &str, text: &str) {
        tracing::warn!(subject, "{text}");
        self.keep(Arc::new(report::error(subject, text)));
    }

    fn keep(&mut self, error: Arc<LastError>) {
        match self.errors.back_mut() {
            Some(last) if last.subject == error.subject && last.text == error.text => {
                *last = Arc::new(LastError { times: last.times + 1, ..(*error).clone() });
            }
            _ => self.errors.push_back(error),
        }
        while self.errors.len() > ERRORS {
            self.errors.pop_front();
        }
        self.publish_soon();
    }
}

fn copy_states(from: &Host, to: &mut Host) {
    for hca in &mut to.hcas {
        let Some(read) = from.hca(hca.name.as_str()) else { continue };
        for port in &mut hca.ports {
            if let Some(read) = read.port(port.port) {
                port.state.clone_from(&read.state);
                port.phys_state.clone_from(&read.phys_state);
            }
        }
    }
}

/// The state of a host that was looked at once.
#[cfg(test)]
pub(crate) fn state_of(root: Root, config: Config) -> Arc<NodeState> {
    let setup =
        Setup { config: Arc::new(config), root: Arc::new(root), reload: None, pod_resources: PathBuf::new() };
    let (mut node, states) = Node::new(setup, mpsc::unbounded_channel());
    let host = rocade_host::read_parts(&node.root, rocade_host::Scope::GRANTS);
    node.take_host(host, Look { at: SystemTime::now(), took: Duration::ZERO, silent: Vec::new() });
    node.begin();
    Arc::clone(&states.borrow())
}

#[cfg(test)]
mod tests;
