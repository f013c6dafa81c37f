//! The answer to ListAndWatch, written out piece by piece as the kubelet takes it. A list of tens of thousands of devices
//! is a megabyte on the wire; tonic would write it out whole and keep the room for as long as the stream is open. Before
//! each message is what gRPC wants there (grpc/doc/PROTOCOL-HTTP2.md): a byte that says that it is not compressed, and
//! its length in four. All other calls are tonic's to answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response};
use prost::bytes::{BufMut, BytesMut};
use prost::encoding;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::metadata::GRPC_CONTENT_TYPE;
use tonic::server::NamedService;

use crate::api::Empty;
use crate::api::device_plugin_server::{DevicePlugin, DevicePluginServer, SERVICE_NAME};
use crate::list::{DEVICES, DeviceList};
use crate::plugin::Plugin;

/// Path of the call that is answered here.
const LIST_AND_WATCH: &str = "/v1beta1.DevicePlugin/ListAndWatch";

/// Bytes of a piece, but for the device that ends it: what a frame of HTTP/2 holds at any peer.
const PIECE: usize = 16 * 1024;

/// A plugin as a server has it.
#[derive(Clone)]
pub(crate) struct PluginService {
    plugin: Arc<Plugin>,
    others: DevicePluginServer<Plugin>,
}

impl PluginService {
    pub(crate) fn new(plugin: Plugin) -> PluginService {
        let plugin = Arc::new(plugin);
        PluginService { others: DevicePluginServer::from_arc(Arc::clone(&plugin)), plugin }
    }
}

impl NamedService for PluginService {
    const NAME: &'static str = SERVICE_NAME;
}

impl Service<Request<Body>> for PluginService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() != LIST_AND_WATCH {
            return self.others.call(request);
        }
        let plugin = Arc::clone(&self.plugin);
        Box::pin(async move {
            let lists = match plugin.list_and_watch(tonic::Request::new(Empty {})).await {
                Ok(answer) => answer.into_inner(),
                Err(status) => return Ok(status.into_http()),
            };
            let (send, frames) = mpsc::channel(1);
            tokio::spawn(send_pieces(lists, send));
            let mut response = Response::new(Body::new(StreamBody::new(ReceiverStream::new(frames))));
            response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
            Ok(response)
        })
    }
}

/// Sends each list, a piece when the one before was taken, until there are no more lists or nobody to take them.
async fn send_pieces(
    mut lists: impl Stream<Item = Result<DeviceList, Status>> + Unpin,
    send: mpsc::Sender<Result<Frame<Bytes>, Status>>,
) {
    loop {
        let list = tokio::select! {
            list = lists.next() => list,
            () = send.closed() => return,
        };
        let Some(list) = list else { break };
        let list = match list {
            Ok(list) => list,
            Err(status) => return drop(send.send(Err(status)).await),
        };
        for piece in pieces(list) {
            if send.send(Ok(Frame::data(piece))).await.is_err() {
                return;
            }
        }
    }
    let good = (HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
    // Refused only where the kubelet has left the stream: nobody is there to be told.
    let _ = send.send(Ok(Frame::trailers(HeaderMap::from_iter([good])))).await;
}

/// A list as a message of gRPC, made while it is taken.
fn pieces(list: DeviceList) -> impl Iterator<Item = Bytes> {
    // One whose length has no room in four bytes is never sent (list::MAX_BYTES).
    let mut length = Some(u32::try_from(list.len_bytes()).unwrap_or(u32::MAX));
    let mut devices = list.into_devices();
    std::iter::from_fn(move || {
        let mut piece = BytesMut::with_capacity(PIECE + 512);
        if let Some(length) = length.take() {
            piece.put_u8(0);
            piece.put_u32(length);
        }
        while piece.len() < PIECE
            && let Some(device) = devices.next()
        {
            encoding::message::encode(DEVICES, &device, &mut piece);
        }
        (!piece.is_empty()).then(|| piece.freeze())
    })
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn the_pieces_of_a_list_are_small_and_together_one_message_of_its_length() {
        for count in [0, 1, 64_000] {
            let list =
                DeviceList::new((0..count).map(|n: u32| (n.to_string(), !n.is_multiple_of(7), vec![0, 1])));
            let pieces: Vec<Bytes> = pieces(list.clone()).collect();
            assert!(pieces.iter().all(|piece| piece.len() < PIECE + 512));
            let whole = pieces.concat();
            let (head, message) = whole.split_at(5);
            assert_eq!(head[0], 0);
            assert_eq!(u32::from_be_bytes(head[1..].try_into().unwrap()) as usize, message.len());
            assert_eq!(DeviceList::decode(message).unwrap(), list);
        }
    }

    #[tokio::test]
    async fn the_end_of_the_lists_ends_the_call_well_and_an_end_of_the_call_ends_them() {
        let (write, lists) = mpsc::channel(1);
        let (send, mut frames) = mpsc::channel(1);
        let run = tokio::spawn(send_pieces(ReceiverStream::new(lists), send));
        write.send(Ok(DeviceList::default())).await.unwrap();
        assert_eq!(frames.recv().await.unwrap().unwrap().into_data().unwrap(), [0; 5].as_slice());
        drop(write);
        let trailers = frames.recv().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
        run.await.unwrap();

        let (write, lists) = mpsc::channel::<Result<DeviceList, Status>>(1);
        let (send, frames) = mpsc::channel(1);
        let run = tokio::spawn(send_pieces(ReceiverStream::new(lists), send));
        drop(frames);
        run.await.unwrap();
        assert!(write.is_closed());
    }
}
