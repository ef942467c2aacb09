//! Flags and their environment twins.

use std::{net::SocketAddr, time::Duration};

use clap::{ArgAction, Parser, builder::NonEmptyStringValueParser, value_parser};

use crate::{
    outbound::{AllowList, Pattern},
    telemetry::LogFormat,
};

/// Staged rollouts for the Deployments you already have.
///
/// Takes the cluster from KUBECONFIG, or the one it runs in. Every flag can be set by its
/// environment variable too.
#[derive(Debug, Clone, Parser)]
#[command(name = "grayrollout", version)]
pub struct Options {
    /// Namespace to work in; repeat it for several (in the variable: separated by commas). All
    /// namespaces if left out.
    #[arg(
        long = "namespace",
        value_name = "NS",
        env = "GRAYROLLOUT_NAMESPACE",
        value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub namespaces: Vec<String>,
    /// Where /metrics, /healthz and /readyz are served.
    #[arg(long, value_name = "ADDR", env = "GRAYROLLOUT_LISTEN", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
    /// Where checks and hooks may call: in-cluster (names of services), same-namespace (those of
    /// the GrayRollout's own namespace), or a URL such as https://hooks.example.com/*; repeat it
    /// for several (in the variable: separated by commas).
    #[arg(
        long,
        value_name = "PATTERN",
        env = "GRAYROLLOUT_ALLOW_URLS",
        value_delimiter = ',',
        default_value = "in-cluster"
    )]
    pub allow_urls: Vec<Pattern>,
    /// Whether /metrics is only for whom the API server knows by a bearer token and allows to get
    /// the path /metrics. The operator then needs to create TokenReviews and SubjectAccessReviews.
    #[arg(
        long,
        env = "GRAYROLLOUT_METRICS_AUTH",
        default_value_t = false,
        action = ArgAction::Set
    )]
    pub metrics_auth: bool,
    /// Whether only the holder of a Lease works, so that several processes can run.
    #[arg(
        long,
        env = "GRAYROLLOUT_LEADER_ELECT",
        default_value_t = true,
        action = ArgAction::Set
    )]
    pub leader_elect: bool,
    /// Namespace of the Lease; the process's own if left out.
    #[arg(long, value_name = "NS", env = "GRAYROLLOUT_LEASE_NAMESPACE")]
    pub lease_namespace: Option<String>,
    /// Name of the Lease.
    #[arg(
        long,
        value_name = "NAME",
        env = "GRAYROLLOUT_LEASE_NAME",
        default_value = "grayrollout"
    )]
    pub lease_name: String,
    /// After this long without a renewal another process may lead. It is renewed after a third of
    /// it, and given up after two thirds without success.
    #[arg(
        long,
        value_name = "N",
        env = "GRAYROLLOUT_LEASE_DURATION_SECONDS",
        default_value_t = 15,
        value_parser = value_parser!(u32).range(3..=3600)
    )]
    pub lease_duration_seconds: u32,
    /// Who this process is in the Lease and in events; POD_UID, or else a random name, if left out.
    #[arg(long, value_name = "NAME", env = "GRAYROLLOUT_IDENTITY")]
    pub identity: Option<String>,
    /// How log lines look.
    #[arg(long, value_enum, env = "GRAYROLLOUT_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or filters such as info,kube=debug.
    #[arg(long, value_name = "LEVEL", env = "GRAYROLLOUT_LOG_LEVEL", default_value = "info")]
    pub log_level: String,
    /// How many GrayRollouts are worked on at once.
    #[arg(
        long,
        value_name = "N",
        env = "GRAYROLLOUT_CONCURRENCY",
        default_value_t = 8,
        value_parser = value_parser!(u16).range(1..=256)
    )]
    pub concurrency: u16,
    /// After about this long everything is listed and decided about anew.
    #[arg(
        long,
        value_name = "N",
        env = "GRAYROLLOUT_RESYNC_SECONDS",
        default_value_t = 600,
        value_parser = value_parser!(u32).range(1..=86_400)
    )]
    pub resync_seconds: u32,
}

impl Options {
    /// Who this process is.
    #[must_use]
    pub fn identity(&self) -> String {
        self.identity
            .clone()
            .or_else(|| std::env::var("POD_UID").ok())
            .filter(|identity| !identity.is_empty())
            .unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)))
    }

    /// Where checks and hooks may call.
    #[must_use]
    pub fn allowed(&self) -> AllowList {
        AllowList(self.allow_urls.clone())
    }

    /// The time between two resyncs.
    #[must_use]
    pub fn resync(&self) -> Duration {
        Duration::from_secs(self.resync_seconds.into())
    }

    /// The namespaces to watch: `None` for all of them.
    #[must_use]
    pub fn watched(&self) -> Vec<Option<String>> {
        if self.namespaces.is_empty() {
            return vec![None];
        }
        let mut namespaces = self.namespaces.clone();
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces.into_iter().map(Some).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(args: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from([&["grayrollout"], args].concat())
    }

    #[test]
    fn the_flags_are_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn leaving_everything_out_gives_the_documented_defaults() {
        let options = parse(&[]).unwrap();
        assert!(options.leader_elect);
        assert!(!options.metrics_auth);
        assert_eq!(options.listen.to_string(), "0.0.0.0:8080");
        assert_eq!(options.concurrency, 8);
        assert_eq!(options.allowed(), AllowList(vec![Pattern::InCluster]));
        assert_eq!(options.resync(), Duration::from_mins(10));
        assert_eq!(options.watched(), [None]);
        assert_eq!(options.identity().len(), 32);
    }

    #[test]
    fn namespaces_repeat_and_a_double_one_is_watched_once() {
        let options = parse(&["--namespace=b", "--namespace", "a", "--namespace=b"]).unwrap();
        assert_eq!(options.watched(), [Some("a".into()), Some("b".into())]);
        assert!(parse(&["--namespace="]).is_err());
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for bad in [
            "--concurrency=0",
            "--resync-seconds=0",
            "--lease-duration-seconds=1",
            "--leader-elect=maybe",
            "--listen=nowhere",
            "--allow-urls=example.com",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
        assert!(!parse(&["--leader-elect=false"]).unwrap().leader_elect);
    }

    #[test]
    fn every_flag_has_its_environment_twin_and_is_documented() {
        for arg in Options::command().get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            if ["help", "version"].contains(&long) {
                continue;
            }
            let twin = format!("GRAYROLLOUT_{}", long.replace('-', "_").to_uppercase());
            assert_eq!(arg.get_env().and_then(|e| e.to_str()), Some(twin.as_str()));
            let page = include_str!("../../docs/install.md");
            assert!(page.contains(&format!("`--{long}")), "docs/install.md misses --{long}");
        }
    }
}
