//! The life of one resource: bind, be registered, be watched by the kubelet, and begin again when any of that ends. There
//! are two ways to be registered, one at a time: Register on kubelet.sock, and a socket that the kubelet finds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rocade_core::ResourceName;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::api::registration_client::RegistrationClient;
use crate::api::{RegisterRequest, VERSION};
use crate::dial::dial;
use crate::endpoint::{Endpoint, Offer};
use crate::error::Error;
use crate::node::Notice;
use crate::sockets::{FileId, Sighting, Sockets};
use crate::state::{LastError, Phase, Registration, Way};

/// First and longest wait after a failed attempt; an event in the directory cuts it short.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// The kubelet dials back within Register and gives that 10 s.
const REGISTER_S: u64 = 15;

/// Time from Register, or from the socket's making, to ListAndWatch, which a healthy kubelet opens at once. After as much
/// of failing the other way is tried.
const WATCH_S: u64 = 10;

/// An endpoint that was watched for longer than this ended for a reason of its own, and is replaced at once.
const SETTLED: Duration = Duration::from_secs(5);

/// Who removes the whole directory removes one socket after another and is done within this.
const REMOVAL: Duration = Duration::from_millis(200);

/// By which way resources are registered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    /// On kubelet.sock; by the plugin watcher where that does not work and there is its directory.
    #[default]
    Auto,
    /// On kubelet.sock alone.
    Kubelet,
    /// By the plugin watcher alone.
    Watcher,
}

/// A resource to serve.
pub(crate) struct Resource {
    pub(crate) offer: Offer,
    pub(crate) sockets: Arc<Sockets>,
    pub(crate) choice: Choice,
    pub(crate) sightings: watch::Receiver<Sighting>,
}

/// Why an endpoint's time was over.
enum End {
    /// There is another kubelet.
    Kubelet,
    /// The endpoint's socket was removed or replaced.
    Socket,
    /// The kubelet closed its last ListAndWatch stream.
    Stream,
    /// The kubelet's view is not what it was told.
    View,
}

/// Serves the resource until `ending` becomes true.
pub(crate) async fn run_resource(resource: Resource, mut ending: watch::Receiver<bool>) {
    let mut life = Life::new(resource);
    while !*ending.borrow() {
        let mut failure = None;
        match life.open() {
            Ok(endpoint) => {
                tokio::select! {
                    lasted = life.serve(&endpoint) => failure = lasted.err(),
                    _ = ending.wait_for(|ending| *ending) => {}
                }
                endpoint.close().await;
            }
            Err(error) => failure = Some(error),
        }
        if let Some(error) = failure {
            life.fail(&error);
            if life.change_way() {
                continue;
            }
            tokio::select! {
                () = life.pause(|| true) => {}
                _ = ending.wait_for(|ending| *ending) => {}
            }
        }
    }
}

struct Life {
    resource: Resource,
    registration: Registration,
    backoff: Duration,
    /// Since when no attempt has come to anything.
    failing: Option<Instant>,
}

impl Life {
    fn new(resource: Resource) -> Life {
        let way = if resource.choice == Choice::Watcher { Way::Watcher } else { Way::Kubelet };
        let registration = Registration::waiting(way);
        Life { resource, registration, backoff: BACKOFF.0, failing: None }
    }

    fn open(&mut self) -> Result<Endpoint, Error> {
        let way = self.registration.way;
        let path = self.resource.sockets.next_path(way, &self.resource.offer.resource);
        let endpoint = Endpoint::open(path.clone(), way, self.resource.offer.clone())?;
        self.report(|registration| {
            registration.phase = Phase::Waiting;
            (registration.socket, registration.told) = (Some(path), None);
        });
        Ok(endpoint)
    }

    /// Stays until the endpoint's time is over; an error asks for a pause before the next.
    async fn serve(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        let mut kubelet = None;
        if self.registration.way == Way::Kubelet {
            kubelet = self.register(endpoint).await?;
            if kubelet.is_none() {
                return Ok(());
            }
        }
        self.wait_for_stream(endpoint).await?;
        (self.failing, self.backoff) = (None, self.backoff.min(BACKOFF.1));
        let since = Instant::now();
        let end = self.hold(endpoint, kubelet).await?;
        let why = match end {
            End::Kubelet => "kubelet.sock is another one",
            End::Socket => "the agent's socket was removed",
            End::Stream => "the kubelet closed ListAndWatch",
            End::View => "the kubelet counts other devices than it was told of",
        };
        tracing::info!(resource = %self.resource.offer.resource, why, "registering again");
        if since.elapsed() > SETTLED || !matches!(end, End::Stream) {
            self.backoff = BACKOFF.0;
            return Ok(());
        }
        Err(Error::Dropped { seconds: SETTLED.as_secs() })
    }

    /// Waits for a kubelet and registers with it; None when the socket is gone and must be made anew.
    async fn register(&mut self, endpoint: &Endpoint) -> Result<Option<FileId>, Error> {
        let begun = Instant::now();
        let is_waited_for = |failing: Option<Instant>| {
            let since = failing.unwrap_or(begun);
            since.elapsed() < Duration::from_secs(WATCH_S)
        };
        loop {
            // Taken before dialling: if the kubelet is replaced meanwhile, the difference shows afterwards.
            let seen = self.resource.sightings.borrow_and_update().kubelet;
            if !endpoint.is_in_place() {
                return Ok(None);
            }
            let Some(kubelet) = seen else {
                if !self.wait_for_kubelet().await {
                    return Err(Error::Silent { what: "make its socket", seconds: WATCH_S });
                }
                continue;
            };
            let another = {
                let mut sightings = self.resource.sightings.clone();
                async move { drop(sightings.wait_for(|now| now.kubelet != seen).await) }
            };
            let answer = tokio::select! {
                answer = self.register_once(endpoint) => answer,
                // One that is gone does not answer any more.
                () = another => continue,
            };
            match answer {
                Ok(()) => {
                    self.report_registered(endpoint);
                    return Ok(Some(kubelet));
                }
                Err(error) if self.has_other_way() && !is_waited_for(self.failing) => return Err(error),
                Err(error) => {
                    self.fail(&error);
                    self.pause(|| endpoint.is_in_place()).await;
                }
            }
        }
    }

    /// False when there is none after a while and there is another way.
    async fn wait_for_kubelet(&mut self) -> bool {
        let patience = async {
            if self.resource.choice == Choice::Auto && self.resource.sockets.has_registry() {
                sleep(Duration::from_secs(WATCH_S)).await;
            } else {
                std::future::pending().await
            }
        };
        tokio::select! {
            changed = self.resource.sightings.changed() => changed.is_ok(),
            () = patience => false,
        }
    }

    async fn register_once(&self, endpoint: &Endpoint) -> Result<(), Error> {
        let answer = timeout(Duration::from_secs(REGISTER_S), self.call_register(endpoint)).await;
        answer.unwrap_or(Err(Error::Silent { what: "answer Register", seconds: REGISTER_S }))
    }

    async fn call_register(&self, endpoint: &Endpoint) -> Result<(), Error> {
        let path = self.resource.sockets.kubelet();
        let channel = dial(&path).await.map_err(|source| Error::Dial { path, source })?;
        let resource = self.resource.offer.resource.to_string();
        let name = endpoint.path().file_name().map(|name| name.to_string_lossy().into_owned());
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: name.unwrap_or_default(),
            resource_name: resource.clone(),
            options: Some(self.resource.offer.options),
        };
        let refused = |status| Error::Refused { resource, status: Box::new(status) };
        RegistrationClient::new(channel).register(request).await.map_err(refused).map(drop)
    }

    async fn wait_for_stream(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        let (mut streams, mut refusals) = (endpoint.streams(), endpoint.refusals());
        let what = match self.registration.way {
            Way::Kubelet => "open ListAndWatch after Register",
            Way::Watcher => "find the socket in plugins_registry and open ListAndWatch",
        };
        let (name, limit) = (self.resource.offer.resource.clone(), sleep(Duration::from_secs(WATCH_S)));
        tokio::select! {
            _ = streams.wait_for(|open| *open > 0) => {}
            error = refused(&name, &mut refusals) => return Err(error),
            () = limit => return Err(Error::Silent { what, seconds: WATCH_S }),
        }
        if self.registration.way == Way::Watcher {
            self.report_registered(endpoint);
        }
        self.report(|registration| (registration.phase, registration.streams) = (Phase::Watched, 1));
        Ok(())
    }

    /// Stays while the kubelet watches. Without a kubelet.sock there is nobody to register with, so a stream that lives
    /// on is kept: a directory removed under a living kubelet costs no capacity.
    async fn hold(&mut self, endpoint: &Endpoint, kubelet: Option<FileId>) -> Result<End, Error> {
        let (mut streams, mut refusals) = (endpoint.streams(), endpoint.refusals());
        let mut states = self.resource.offer.states.clone();
        let name = self.resource.offer.resource.clone();
        let repairs = |states: &mut watch::Receiver<Arc<crate::state::NodeState>>| {
            states.borrow_and_update().resource(&name).map_or(0, |resource| resource.repairs)
        };
        let before = repairs(&mut states);
        loop {
            let seen = self.resource.sightings.borrow_and_update().kubelet;
            match (kubelet, seen) {
                (Some(kubelet), Some(seen)) if seen != kubelet => return Ok(End::Kubelet),
                (Some(_), None) => {}
                _ if endpoint.is_in_place() => {}
                _ => {
                    sleep(REMOVAL).await;
                    if kubelet.is_none() || self.resource.sockets.look().kubelet.is_some() {
                        return Ok(End::Socket);
                    }
                }
            }
            if repairs(&mut states) != before {
                return Ok(End::View);
            }
            let open = *streams.borrow_and_update();
            if open != self.registration.streams {
                self.report(|registration| registration.streams = open);
            }
            if open == 0 && !self.is_found_again(&mut streams).await {
                return Ok(End::Stream);
            }
            tokio::select! {
                _ = streams.changed() => {}
                _ = self.resource.sightings.changed() => {}
                _ = states.changed() => {}
                error = refused(&name, &mut refusals) => return Err(error),
            }
        }
    }

    /// A kubelet that starts again finds a socket in plugins_registry by itself.
    async fn is_found_again(&self, streams: &mut watch::Receiver<usize>) -> bool {
        let again = timeout(Duration::from_secs(WATCH_S), streams.wait_for(|open| *open > 0));
        self.registration.way == Way::Watcher && again.await.is_ok()
    }

    fn has_other_way(&self) -> bool {
        self.resource.choice == Choice::Auto && self.resource.sockets.has_registry()
    }

    /// Takes the other way where this one has come to nothing for long enough; true when it did.
    fn change_way(&mut self) -> bool {
        let long = self.failing.is_some_and(|since| since.elapsed() >= Duration::from_secs(WATCH_S));
        if !long || !self.has_other_way() {
            return false;
        }
        let way = match self.registration.way {
            Way::Kubelet => Way::Watcher,
            Way::Watcher => Way::Kubelet,
        };
        tracing::warn!(resource = %self.resource.offer.resource, ?way, "trying the other way of registration");
        (self.failing, self.backoff) = (None, BACKOFF.0);
        self.report(|registration| registration.way = way);
        true
    }

    fn fail(&mut self, error: &Error) {
        let resource = &self.resource.offer.resource;
        let text = error.chain();
        tracing::warn!(%resource, error = text, "not registered, trying again");
        let limit = match error {
            // These took their time already.
            Error::Silent { seconds, .. } => Duration::from_secs(*seconds),
            _ => Duration::ZERO,
        };
        let now = Instant::now();
        self.failing = self.failing.or(now.checked_sub(limit)).or(Some(now));
        let error = LastError { at: SystemTime::now(), subject: resource.to_string(), text, times: 1 };
        self.report(|registration| {
            (registration.phase, registration.streams) = (Phase::Failed, 0);
            registration.last_error = Some(Arc::new(error));
        });
    }

    fn report_registered(&mut self, endpoint: &Endpoint) {
        let (offer, told) = (&self.resource.offer, self.told(endpoint));
        let state = Arc::clone(&offer.states.borrow());
        if let Some(resource) = state.resource(&offer.resource) {
            let pool = &resource.pool;
            tracing::info!(
                resource = %pool.resource, slots = pool.slots, hcas = pool.ports_text(), told = %told.display(),
                "registered"
            );
        }
        self.report(|registration| {
            registration.phase = Phase::Registered;
            registration.count += 1;
            registration.told = Some(told);
        });
    }

    /// The path by which the kubelet knows the socket: it joins a registered name to its own directory.
    fn told(&self, endpoint: &Endpoint) -> PathBuf {
        endpoint.path().to_owned()
    }

    fn report(&mut self, change: impl FnOnce(&mut Registration)) {
        let before = self.registration.phase;
        change(&mut self.registration);
        if self.registration.phase != before {
            self.registration.since = SystemTime::now();
        }
        let offer = &self.resource.offer;
        let notice = Notice::Registration(offer.resource.clone(), self.registration.clone());
        let _ = offer.tell.send(notice);
    }

    /// Waits, longer each time; another kubelet, or none, ends the wait and the patience with the last one. Other
    /// changes in the directory do not: resources that fail together would wake each other without end.
    async fn pause(&mut self, in_place: impl Fn() -> bool) {
        let kubelet = self.resource.sightings.borrow().kubelet;
        let sightings = &mut self.resource.sightings;
        tokio::select! {
            () = sleep(self.backoff) => self.backoff = (self.backoff * 2).min(BACKOFF.1),
            _ = sightings.wait_for(|seen| seen.kubelet != kubelet || !in_place()) => self.backoff = BACKOFF.0,
        }
    }
}

/// Until a kubelet that found the socket says that it does not take it.
async fn refused(resource: &ResourceName, refusals: &mut watch::Receiver<Option<String>>) -> Error {
    let why = refusals.wait_for(Option::is_some).await.map(|why| why.clone().unwrap_or_default());
    match why {
        Ok(why) => Error::NotTaken { resource: resource.to_string(), why },
        Err(_) => std::future::pending().await,
    }
}
