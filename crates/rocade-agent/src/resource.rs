//! The life of one resource: bind, register, be watched by the kubelet, and begin again when any of that ends.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rocade_core::ResourceName;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Endpoint as Address;

use crate::api::registration_client::RegistrationClient;
use crate::api::{DevicePluginOptions, RegisterRequest, VERSION};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::sockets::{FileId, Sighting, Sockets};
use crate::state::{NodeState, ResourceState};

/// First and longest wait after a failed attempt; an event in the directory cuts it short.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// The kubelet dials back within Register and gives that 10 s.
const REGISTER_S: u64 = 15;

/// Time from Register to ListAndWatch, which a healthy kubelet opens at once.
const WATCH_S: u64 = 10;

/// An endpoint that was watched for longer than this ended for a reason of its own, and is replaced at once.
const SETTLED: Duration = Duration::from_secs(5);

/// Who removes the whole directory removes one socket after another and is done within this.
const REMOVAL: Duration = Duration::from_millis(200);

/// A resource to serve.
pub(crate) struct Resource {
    pub(crate) name: ResourceName,
    pub(crate) sockets: Arc<Sockets>,
    pub(crate) states: watch::Receiver<Arc<NodeState>>,
}

/// Why an endpoint's time was over.
enum End {
    /// There is another kubelet.
    Kubelet,
    /// The endpoint's socket was removed or replaced.
    Socket,
    /// The kubelet closed its last ListAndWatch stream.
    Stream,
}

/// Serves the resource until `ending` becomes true.
pub(crate) async fn run_resource(
    resource: Resource,
    mut sightings: watch::Receiver<Sighting>,
    mut ending: watch::Receiver<bool>,
) {
    let mut backoff = BACKOFF.0;
    while !*ending.borrow() {
        let socket = resource.sockets.dir().join(resource.sockets.next_name(&resource.name));
        let mut failure = None;
        match Endpoint::open(socket.clone(), resource.name.clone(), resource.states.clone()) {
            Ok(endpoint) => {
                let serving = Serving { resource: &resource, endpoint: &endpoint, socket: &socket };
                tokio::select! {
                    lasted = serving.run(&mut sightings, &mut backoff) => {
                        if let Err(error) = lasted { failure = Some(error); }
                    }
                    _ = ending.wait_for(|ending| *ending) => {}
                }
                endpoint.close().await;
            }
            Err(error) => failure = Some(error),
        }
        if let Some(error) = failure {
            log_failure(&resource.name, &error);
            tokio::select! {
                () = pause(&mut backoff, &mut sightings, || true) => {}
                _ = ending.wait_for(|ending| *ending) => {}
            }
        }
    }
}

/// An endpoint and whom it serves.
struct Serving<'a> {
    resource: &'a Resource,
    endpoint: &'a Endpoint,
    socket: &'a Path,
}

impl Serving<'_> {
    /// Registers and stays until the endpoint's time is over; an error asks for a pause before the next.
    async fn run(
        &self,
        sightings: &mut watch::Receiver<Sighting>,
        backoff: &mut Duration,
    ) -> Result<(), Error> {
        let Some(kubelet) = self.register(sightings, backoff).await else { return Ok(()) };
        if let Some(ResourceState { pool, .. }) = self.resource.states.borrow().resource(&self.resource.name)
        {
            tracing::info!(resource = %pool.resource, slots = pool.slots, hcas = pool.ports_text(), "registered");
        }
        let mut streams = self.endpoint.streams();
        let watched = timeout(Duration::from_secs(WATCH_S), streams.wait_for(|open| *open > 0)).await.is_ok();
        if !watched {
            return Err(Error::Silent { what: "open ListAndWatch after Register", seconds: WATCH_S });
        }
        let since = Instant::now();
        let end = self.hold(kubelet, streams, sightings).await;
        let why = match end {
            End::Kubelet => "kubelet.sock is another one",
            End::Socket => "the agent's socket was removed",
            End::Stream => "the kubelet closed ListAndWatch",
        };
        tracing::info!(resource = %self.resource.name, why, "registering again");
        if since.elapsed() > SETTLED || !matches!(end, End::Stream) {
            *backoff = BACKOFF.0;
            return Ok(());
        }
        Err(Error::Dropped { seconds: SETTLED.as_secs() })
    }

    /// Waits for a kubelet and registers with it; None when the socket is gone and must be made anew.
    async fn register(
        &self,
        sightings: &mut watch::Receiver<Sighting>,
        backoff: &mut Duration,
    ) -> Option<FileId> {
        loop {
            // Taken before dialling: if the kubelet is replaced meanwhile, the difference shows afterwards.
            let seen = sightings.borrow_and_update().kubelet;
            if !self.endpoint.is_in_place() {
                return None;
            }
            let Some(kubelet) = seen else {
                sightings.changed().await.ok()?;
                continue;
            };
            match self.register_once().await {
                Ok(()) => return Some(kubelet),
                Err(error) => {
                    log_failure(&self.resource.name, &error);
                    pause(backoff, sightings, || self.endpoint.is_in_place()).await;
                }
            }
        }
    }

    async fn register_once(&self) -> Result<(), Error> {
        let answer = timeout(Duration::from_secs(REGISTER_S), self.call_register()).await;
        answer.unwrap_or(Err(Error::Silent { what: "answer Register", seconds: REGISTER_S }))
    }

    async fn call_register(&self) -> Result<(), Error> {
        let path = self.resource.sockets.kubelet();
        let address = Address::from_shared(format!("unix://{}", path.display()));
        let dial = |source| Error::Dial { path: path.clone(), source };
        let channel = address.map_err(dial)?.connect().await.map_err(dial)?;
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: self.socket.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default(),
            resource_name: self.resource.name.to_string(),
            options: Some(DevicePluginOptions::default()),
        };
        let refused =
            |status| Error::Refused { resource: self.resource.name.to_string(), status: Box::new(status) };
        RegistrationClient::new(channel).register(request).await.map_err(refused).map(drop)
    }

    /// Stays while the kubelet watches. Without a kubelet.sock there is nobody to register with, so a stream that lives
    /// on is kept: a directory removed under a living kubelet costs no capacity.
    async fn hold(
        &self,
        kubelet: FileId,
        mut streams: watch::Receiver<usize>,
        sightings: &mut watch::Receiver<Sighting>,
    ) -> End {
        loop {
            let seen = sightings.borrow_and_update().kubelet;
            match seen {
                Some(seen) if seen != kubelet => return End::Kubelet,
                Some(_) if !self.endpoint.is_in_place() => {
                    sleep(REMOVAL).await;
                    if self.resource.sockets.look().kubelet.is_some() {
                        return End::Socket;
                    }
                }
                _ => {}
            }
            tokio::select! {
                _ = streams.wait_for(|open| *open == 0) => return End::Stream,
                _ = sightings.changed() => {}
            }
        }
    }
}

fn log_failure(resource: &ResourceName, error: &Error) {
    tracing::warn!(%resource, error = error.chain(), "not registered, trying again");
}

/// Waits, longer each time; another kubelet, or none, ends the wait and the patience with the last one. Other changes
/// in the directory do not: resources that fail together would wake each other without end.
async fn pause(
    backoff: &mut Duration,
    sightings: &mut watch::Receiver<Sighting>,
    in_place: impl Fn() -> bool,
) {
    let kubelet = sightings.borrow().kubelet;
    tokio::select! {
        () = sleep(*backoff) => *backoff = (*backoff * 2).min(BACKOFF.1),
        _ = sightings.wait_for(|seen| seen.kubelet != kubelet || !in_place()) => *backoff = BACKOFF.0,
    }
}
