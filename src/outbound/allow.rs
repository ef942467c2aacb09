//! Where calls may go.

use std::{fmt, str::FromStr};

use http::{Uri, uri::Authority};

/// Where calls may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowList(pub Vec<Pattern>);

/// One place or a set of places that calls may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Services of the cluster, by name, name.namespace, name.namespace.svc or
    /// name.namespace.svc.cluster.local. What is reached is always a name that ends in svc or
    /// svc.cluster.local, so that no other host can be meant.
    InCluster,
    /// Services of the rollout's own namespace.
    SameNamespace,
    /// URLs of this form.
    Url(UrlPattern),
}

/// A scheme, a host, a port and the beginning of a path; `*` stands for any of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlPattern {
    scheme: String,
    host: String,
    /// `None` is any.
    port: Option<u16>,
    /// The path, and whether it is only the beginning of it.
    path: Option<(String, bool)>,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "in-cluster" => Ok(Self::InCluster),
            "same-namespace" => Ok(Self::SameNamespace),
            url => url.parse().map(Self::Url),
        }
    }
}

impl FromStr for UrlPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "{text}: {why}; use in-cluster, same-namespace, or a URL such as \
                 https://hooks.example.com/*, https://*.example.com/* or http://10.0.0.7:8080/hooks/*"
            )
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("there is no scheme"))?;
        if !["http", "https"].contains(&scheme) {
            return Err(wrong("the scheme must be http or https"));
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let has_port = authority.rfind(':').filter(|at| !authority.ends_with(']') && *at > 0);
        let (host, port) = match has_port {
            Some(at) => (authority.get(..at), authority.get(at + 1..)),
            None => (Some(authority), None),
        };
        let host = host.unwrap_or_default().to_ascii_lowercase();
        let rest_of_host = host.strip_prefix("*.").unwrap_or(&host);
        if host.is_empty() || host.contains('@') || host != "*" && rest_of_host.contains('*') {
            return Err(wrong("the host must be a name, an address, *.DOMAIN or *"));
        }
        let port = match port {
            None => Some(if scheme == "https" { 443 } else { 80 }),
            Some("*") => None,
            Some(port) => Some(port.parse().map_err(|_| wrong("the port must be a number or *"))?),
        };
        let path = match path.strip_suffix('*') {
            _ if path.is_empty() => None,
            Some(beginning) if beginning.contains('*') => {
                return Err(wrong("in a path * can only come last"));
            }
            Some(beginning) => Some((beginning.to_owned(), true)),
            None if path.contains('*') => return Err(wrong("in a path * can only come last")),
            None => Some((path.to_owned(), false)),
        };
        Ok(Self { scheme: scheme.to_owned(), host, port, path })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InCluster => f.write_str("in-cluster"),
            Self::SameNamespace => f.write_str("same-namespace"),
            Self::Url(UrlPattern { scheme, host, port, path }) => {
                let port = port.map_or_else(|| "*".to_owned(), |port| port.to_string());
                write!(f, "{scheme}://{host}:{port}")?;
                match path {
                    Some((path, true)) => write!(f, "{path}*"),
                    Some((path, false)) => f.write_str(path),
                    None => Ok(()),
                }
            }
        }
    }
}

impl UrlPattern {
    fn allows(&self, uri: &Uri, host: &str) -> bool {
        let host_fits = match self.host.strip_prefix('*') {
            Some(end) => host.ends_with(end) && host.len() > end.len(),
            None => host == self.host,
        };
        let path_fits = self.path.as_ref().is_none_or(|(path, beginning)| {
            !climbs(uri.path())
                && (uri.path() == path || *beginning && uri.path().starts_with(path))
        });
        Some(self.scheme.as_str()) == uri.scheme_str()
            && host_fits
            && self.port.is_none_or(|port| port == port_of(uri))
            && path_fits
    }
}

fn port_of(uri: &Uri) -> u16 {
    let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    uri.port_u16().unwrap_or(default)
}

/// Whether a server may take the path for another one than it begins with.
fn climbs(path: &str) -> bool {
    let path =
        path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    path.replace('\\', "/").split('/').any(|part| part == ".." || part == ".")
}

impl AllowList {
    /// The URL to call for a rollout in this namespace.
    ///
    /// # Errors
    ///
    /// Says why it may not be called, and what to do.
    pub fn admit(&self, url: &str, namespace: &str) -> Result<Uri, String> {
        let uri: Uri = url.parse().map_err(|error| format!("the URL cannot be read: {error}"))?;
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        let known = matches!(uri.scheme_str(), Some("http" | "https"));
        if host.is_empty() || !plain || !known {
            return Err("the URL must have a host, http or https, and no user".into());
        }
        for pattern in &self.0 {
            let admitted = match pattern {
                Pattern::Url(pattern) => pattern.allows(&uri, &host).then(|| Ok(uri.clone())),
                Pattern::InCluster => {
                    service(&host, namespace).map(|service| with_host(&uri, &service.name))
                }
                Pattern::SameNamespace => service(&host, namespace)
                    .filter(|service| service.namespace == namespace)
                    .map(|service| with_host(&uri, &service.name)),
            };
            if let Some(admitted) = admitted {
                return admitted;
            }
        }
        let scheme = uri.scheme_str().unwrap_or_default();
        let authority = uri.authority().map_or("", Authority::as_str);
        let list: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        Err(format!(
            "{scheme}://{authority} is not allowed: the operator calls only what its flag \
             --allow-urls permits ({}); add {scheme}://{authority}/* there",
            list.join(", ")
        ))
    }
}

/// A service of the cluster.
struct Service<'a> {
    name: String,
    namespace: &'a str,
}

fn service<'a>(host: &'a str, own: &'a str) -> Option<Service<'a>> {
    let label = |part: &&str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.len() <= 63 && part.chars().all(plain)
    };
    let parts: Vec<_> = host.split('.').collect();
    if !parts.iter().all(label) {
        return None;
    }
    match parts.as_slice() {
        [name] => Some(Service { name: format!("{name}.{own}.svc"), namespace: own }),
        [name, namespace] | [name, namespace, "svc"] => {
            Some(Service { name: format!("{name}.{namespace}.svc"), namespace })
        }
        [_, namespace, "svc", "cluster", "local"] => {
            Some(Service { name: host.to_owned(), namespace })
        }
        _ => None,
    }
}

fn with_host(uri: &Uri, host: &str) -> Result<Uri, String> {
    let authority = match uri.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Uri::builder()
        .scheme(uri.scheme_str().unwrap_or("http"))
        .authority(authority)
        .path_and_query(path)
        .build()
        .map_err(|error| format!("{uri} cannot be called: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(patterns: &[&str], url: &str) -> Result<String, String> {
        let patterns = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        AllowList(patterns).admit(url, "shop").map(|uri| uri.to_string())
    }

    #[test]
    fn names_of_services_are_completed_so_that_nothing_else_is_reached() {
        for (url, reached) in [
            ("http://lb/drain", "http://lb.shop.svc/drain"),
            (
                "http://prometheus.monitoring:9090/q?a=b",
                "http://prometheus.monitoring.svc:9090/q?a=b",
            ),
            ("https://lb.infra.svc", "https://lb.infra.svc/"),
            ("http://lb.infra.svc.cluster.local:80/", "http://lb.infra.svc.cluster.local:80/"),
            ("http://EXAMPLE.com/", "http://example.com.svc/"),
            ("http://localhost:8080/", "http://localhost.shop.svc:8080/"),
            ("http://127.1/", "http://127.1.svc/"),
        ] {
            assert_eq!(admit(&["in-cluster"], url).as_deref(), Ok(reached), "{url}");
        }
    }

    #[test]
    fn all_else_needs_a_pattern_of_its_own() {
        for url in [
            "http://127.0.0.1/",
            "http://169.254.169.254/latest/meta-data",
            "http://[::1]/",
            "http://metadata.google.internal/",
            "http://hooks.example.com/",
            "http://a.b.svc.evil/",
            "http://a.b.svc.cluster.local.evil.org/",
            "http://example.com./",
            "http://user:secret@lb/",
            "ftp://lb/",
            "lb/drain",
            "",
        ] {
            assert!(admit(&["in-cluster"], url).is_err(), "{url}");
        }
        let why = admit(&["in-cluster"], "http://hooks.example.com/x").unwrap_err();
        assert!(
            why.contains("--allow-urls") && why.contains("http://hooks.example.com/*"),
            "{why}"
        );
    }

    #[test]
    fn patterns_say_scheme_host_port_and_path() {
        let allowed = |pattern: &str, url: &str| admit(&[pattern], url).is_ok();
        for (pattern, url) in [
            ("https://hooks.example.com", "https://hooks.example.com/any?x=1"),
            ("https://hooks.example.com/*", "https://HOOKS.example.com:443/any"),
            ("https://*.example.com/*", "https://a.b.example.com/"),
            ("http://10.0.0.7:8080/hooks/*", "http://10.0.0.7:8080/hooks/drain"),
            ("http://[::1]:*", "http://[::1]:4711/"),
            ("http://127.0.0.1:*", "http://127.0.0.1:4711/x"),
        ] {
            assert!(allowed(pattern, url), "{pattern} {url}");
        }
        for (pattern, url) in [
            ("https://hooks.example.com/*", "http://hooks.example.com/"),
            ("https://hooks.example.com/*", "https://hooks.example.com:8443/"),
            ("https://hooks.example.com/*", "https://hooks.example.com.evil.org/"),
            ("https://*.example.com/*", "https://example.com/"),
            ("https://*.example.com/*", "https://evil.org/x.example.com/"),
            ("https://*.example.com/*", "https://evilexample.com/"),
            ("http://10.0.0.7:8080/hooks/*", "http://10.0.0.7:8080/admin"),
            ("http://10.0.0.7:8080/hooks/*", "http://10.0.0.7:8080/hooks/../admin"),
            ("http://10.0.0.7:8080/hooks/*", "http://10.0.0.7:8080/hooks/%2E%2e/admin"),
            ("http://10.0.0.7:8080/hooks/*", "http://10.0.0.7:8080/hooks/..%2fadmin"),
            ("same-namespace", "http://lb.other/"),
        ] {
            assert!(!allowed(pattern, url), "{pattern} {url}");
        }
        assert!(
            allowed("same-namespace", "http://lb.shop/") && allowed("same-namespace", "http://lb/")
        );
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_examples() {
        for bad in [
            "",
            "example.com",
            "ftp://a/*",
            "http://",
            "http://a*b/",
            "http://a:b/",
            "http://a/*/b",
        ] {
            let why = bad.parse::<Pattern>().unwrap_err();
            assert!(why.contains("https://hooks.example.com/*"), "{bad}: {why}");
        }
    }
}
