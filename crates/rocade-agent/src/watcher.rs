//! The agent's side of the plugin watcher: a kubelet that finds a socket in plugins_registry asks who is there, and says
//! what it makes of the answer.

use rocade_core::ResourceName;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::api::VERSION;
use crate::api::plugin_registration::registration_server::Registration;
use crate::api::plugin_registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};

/// Who is there.
pub(crate) struct Introduction {
    pub(crate) resource: ResourceName,
    /// Why the kubelet does not take it.
    pub(crate) refuse: watch::Sender<Option<String>>,
}

#[tonic::async_trait]
impl Registration for Introduction {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "DevicePlugin".to_owned(),
            name: self.resource.to_string(),
            // The socket that it found, by the path at which it found it: a container knows no path of the host.
            endpoint: String::new(),
            supported_versions: vec![VERSION.to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let RegistrationStatus { plugin_registered, error } = request.into_inner();
        self.refuse.send_replace((!plugin_registered).then_some(error));
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
