//! Writers that never rest.

use std::time::Duration;

use grayrollout_e2e::{Json, Kind, Test, path_of};
use serde_json::json;
use tokio::task::JoinHandle;

/// Writes an annotation to every object of some kinds in a namespace, again and again, until
/// dropped.
pub struct Flood(JoinHandle<()>);

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Flood {
    /// Starts with so many rounds per second.
    pub fn start(test: &Test, per_second: u32, kinds: &[Kind]) -> Self {
        let (api, namespace, kinds) = (test.api.clone(), test.namespace.clone(), kinds.to_vec());
        let pause = Duration::from_secs(1) / per_second;
        Self(tokio::spawn(async move {
            for round in 0.. {
                for kind in &kinds {
                    let (version, plural) = kind.resource();
                    let collection = path_of(version, &namespace, plural);
                    let list = api.get(&collection).await.unwrap_or_default();
                    for item in list.list("/items") {
                        let path = format!("{collection}/{}", item.text("/metadata/name"));
                        let annotations = json!({"example.com/round": round.to_string()});
                        let patch = json!({"metadata": {"annotations": annotations}});
                        // An object may be gone by now.
                        let _ = api.patch(&path, &patch).await;
                    }
                }
                tokio::time::sleep(pause).await;
            }
        }))
    }
}
