//! A model of the parts of Kubernetes that act on a Deployment: its controller, the ReplicaSet
//! controller and the kubelet. Pure data; the caller says who acts when.

mod deployment;
mod objects;
mod replica_set;
mod rolling;
mod scale;

pub use deployment::sync as sync_deployment;
pub use objects::{Cluster, Deployment, ReplicaSet, resolve};
pub use replica_set::{kubelet, next_pod_event, sync as sync_replica_set};
