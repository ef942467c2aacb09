//! The HTTP client: pooled connections, no redirects, TLS verified, short answers.

use std::{path::Path, sync::OnceLock, time::Duration};

use http::{
    Request, Response, Uri,
    header::{CONTENT_TYPE, USER_AGENT},
};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{
    CertificateError, ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde::Deserialize;
use serde_json::Value;
use tracing::warn;

use crate::plan::Outcome;

/// Most of an answer that is read.
const MOST: usize = 64 * 1024;
/// Longest time to reach a host.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_mins(1);
/// The certificate authority of the cluster, as pods find it.
const CLUSTER_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// What a refused certificate most often needs.
const UNKNOWN_ISSUER: &str =
    "; the operator trusts the authorities in the file that SSL_CERT_FILE names";

type Inner = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The one client, made when it is first needed.
#[derive(Default)]
pub struct HttpClient(OnceLock<Result<Inner, String>>);

impl HttpClient {
    fn get(&self) -> Result<&Inner, String> {
        self.0.get_or_init(make).as_ref().map_err(Clone::clone)
    }

    /// Sends a body to a webhook.
    pub async fn post(&self, url: Uri, key: &str, body: &Value) -> Outcome {
        let request = Request::post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", key)
            .header(USER_AGENT, concat!("grayrollout/", env!("CARGO_PKG_VERSION")))
            .body(Full::from(body.to_string()));
        let answer = match self.send(request).await {
            Ok(answer) => answer,
            Err(why) => return Outcome::None(why),
        };
        let status = answer.status();
        let moved = status.is_redirection();
        let message = match read(answer).await {
            Ok(bytes) => message_of(&bytes, status.is_success()),
            // It has answered, whatever else it wanted to say.
            Err(why) => why,
        };
        let message =
            if moved { "redirects are not followed; use the final URL".into() } else { message };
        Outcome::Http { status: status.as_u16(), message }
    }

    /// Asks Prometheus.
    pub async fn query(&self, url: Uri) -> Outcome {
        let request = Request::get(url)
            .header(USER_AGENT, concat!("grayrollout/", env!("CARGO_PKG_VERSION")))
            .body(Full::default());
        let ask = async {
            let answer = self.send(request).await?;
            let status = answer.status();
            let body = read(answer).await?;
            value_of(&body).map_err(|why| {
                if status.is_success() {
                    why
                } else {
                    format!("answered {}: {why}", status.as_u16())
                }
            })
        };
        ask.await.map_or_else(Outcome::None, Outcome::Value)
    }

    async fn send(
        &self,
        request: http::Result<Request<Full<Bytes>>>,
    ) -> Result<Response<Incoming>, String> {
        let request = request.map_err(|error| format!("it cannot be called: {error}"))?;
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        self.get()?.request(request).await.map_err(|error| {
            let mut text = format!("{host} cannot be reached: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                if is_unknown_issuer(cause) {
                    text.push_str(UNKNOWN_ISSUER);
                }
                source = cause.source();
            }
            text
        })
    }
}

/// Whether a certificate was refused for want of the authority that issued it.
fn is_unknown_issuer(cause: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(tls) = cause.downcast_ref() {
        return matches!(tls, rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer));
    }
    // What TLS says comes wrapped in errors of I/O, whose source is the source of what they wrap.
    let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    inner.is_some_and(|inner| is_unknown_issuer(inner))
}

fn make() -> Result<Inner, String> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for error in native.errors {
        warn!(%error, "certificate authorities of the system cannot be read");
    }
    roots.add_parsable_certificates(native.certs);
    if Path::new(CLUSTER_CA).exists() {
        let cluster = CertificateDer::pem_file_iter(CLUSTER_CA)
            .map_err(|error| format!("{CLUSTER_CA} cannot be read: {error}"))?;
        roots.add_parsable_certificates(cluster.flatten());
    }
    let provider = rustls::crypto::ring::default_provider();
    let tls = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_nodelay(true);
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(4)
        .pool_timer(TokioTimer::new())
        .build(connector.wrap_connector(tcp)))
}

/// The body, unless it is too long.
async fn read(answer: Response<Incoming>) -> Result<Vec<u8>, String> {
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the answer broke off: {error}"))?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > MOST {
                return Err(format!("the answer is longer than {} KiB", MOST / 1024));
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

/// What an answer says: its field `message`, and of a failure any text.
fn message_of(body: &[u8], success: bool) -> String {
    #[derive(Deserialize)]
    struct Says {
        message: String,
    }
    match serde_json::from_slice::<Says>(body) {
        Ok(says) => says.message,
        Err(_) if success => String::new(),
        Err(_) => String::from_utf8_lossy(body.get(..MOST.min(body.len())).unwrap_or(body)).into(),
    }
}

/// The URL of an instant query.
pub fn query_url(address: &str, query: &str) -> String {
    let query = crate::plan::percent_encoded(query);
    format!("{}/api/v1/query?query={query}", address.trim_end_matches('/'))
}

/// What Prometheus answers to an instant query.
#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: Value,
}

/// The one value of an answer.
fn value_of(body: &[u8]) -> Result<f64, String> {
    let reply: Reply = serde_json::from_slice(body)
        .map_err(|_| "the answer is not that of a Prometheus".to_owned())?;
    let data = match (reply.data, reply.error) {
        (_, Some(error)) => return Err(error),
        (None, None) => return Err("the answer has no data".into()),
        (Some(data), None) => data,
    };
    let sample = match data.result_type.as_str() {
        "scalar" => data.result,
        "vector" => match data.result.as_array().map(Vec::as_slice) {
            Some([one]) => one.get("value").cloned().unwrap_or_default(),
            Some([]) => return Err("the query gave no sample".into()),
            Some(all) => {
                return Err(format!("the query gave {} samples, not one: sum them", all.len()));
            }
            None => return Err("the answer cannot be read".into()),
        },
        other => return Err(format!("the query gave a {other}, not one value")),
    };
    let value = sample.get(1).and_then(Value::as_str).map(str::parse);
    value.and_then(Result::ok).ok_or_else(|| "the value cannot be read".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_or_a_scalar_is_a_value() {
        let of = |json: &str| value_of(json.as_bytes());
        let vector = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1.5,"0.25"]}]}}"#;
        assert_eq!(of(vector), Ok(0.25));
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1.5,"3"]}}"#;
        assert_eq!(of(scalar), Ok(3.0));
        let nan = vector.replace("0.25", "NaN");
        assert!(of(&nan).is_ok_and(f64::is_nan));
        assert_eq!(of(&vector.replace("0.25", "+Inf")), Ok(f64::INFINITY));
    }

    #[test]
    fn all_else_says_what_is_wrong() {
        for (json, why) in [
            (r#"{"data":{"resultType":"vector","result":[]}}"#, "no sample"),
            (r#"{"data":{"resultType":"vector","result":[{},{}]}}"#, "2 samples"),
            (r#"{"data":{"resultType":"matrix","result":[]}}"#, "a matrix"),
            (r#"{"data":{"resultType":"vector","result":[{"value":[1,"x"]}]}}"#, "cannot be read"),
            (r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#, "parse error"),
            (r#"{"status":"success"}"#, "no data"),
            ("<html>", "not that of a Prometheus"),
        ] {
            let said = value_of(json.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{json}: {said}");
        }
    }

    #[test]
    fn an_answer_may_carry_a_message() {
        assert_eq!(message_of(br#"{"message":"drained","more":1}"#, true), "drained");
        assert_eq!(message_of(b"OK", true), "");
        assert_eq!(message_of(b"still busy", false), "still busy");
    }

    #[test]
    fn a_query_is_encoded_whole() {
        let url = query_url("http://prom:9090/p/", r#"sum(x{a="b c"}) & 1"#);
        assert_eq!(
            url,
            "http://prom:9090/p/api/v1/query?query=sum%28x%7Ba%3D%22b%20c%22%7D%29%20%26%201"
        );
        assert!(url.parse::<Uri>().is_ok());
    }
}
