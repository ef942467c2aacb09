//! Plain HTTP to a process of ours on loopback.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const PATIENCE: Duration = Duration::from_secs(5);

/// The status code and the body of a GET, if there is an answer in time. `authorization` is the
/// value of that header.
pub(crate) async fn get(
    from: SocketAddr,
    path: &str,
    authorization: Option<&str>,
) -> Option<(u16, String)> {
    let request = async {
        let mut stream = TcpStream::connect(from).await.ok()?;
        let more = authorization.map(|value| format!("Authorization: {value}\r\n"));
        // By 1.0 the body ends with the connection, and comes in one piece.
        let head =
            format!("GET {path} HTTP/1.0\r\nHost: {from}\r\n{}\r\n", more.unwrap_or_default());
        stream.write_all(head.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let code = head.split(' ').nth(1)?.parse().ok()?;
        Some((code, body.to_owned()))
    };
    tokio::time::timeout(PATIENCE, request).await.ok()?
}
