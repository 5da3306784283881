//! What can go wrong between here and a server, split by what the caller may do about it.

use std::error::Error as StdError;
use std::fmt;
use std::io::ErrorKind as IoKind;

/// A request that got no usable answer.
///
/// It never holds a header, a body or a query: those may carry a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} ({stage})")]
pub struct NetError {
    /// What happened.
    pub kind: NetErrorKind,
    /// How far the exchange had come.
    pub stage: Stage,
}

/// The sorts of failure a caller treats differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetErrorKind {
    /// One of the request's timeouts ran out.
    Timeout,
    /// The peer closed the connection before the answer was complete.
    Closed,
    /// Nobody listens at the address.
    Refused,
    /// This machine could not open any connection: no network, no free socket.
    ConnectionUnavailable,
    /// The name did not resolve or the connection could not be made.
    Network,
    /// The body is larger than the caller allowed.
    TooLarge,
    /// The address cannot be requested.
    InvalidUrl,
    /// Anything else below HTTP: a certificate that is not trusted, bytes that are not HTTP.
    Other,
}

/// How far an exchange had come when it failed, as measured, not guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// No byte of the response had arrived.
    BeforeResponse,
    /// The response had begun.
    MidStream,
    /// Nobody measured it.
    Unknown,
}

impl Stage {
    /// The name used in traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BeforeResponse => "before_response",
            Self::MidStream => "mid_stream",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeResponse => "before any response",
            Self::MidStream => "while reading the response",
            Self::Unknown => "at an unknown point",
        })
    }
}

impl fmt::Display for NetErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout => "the server took too long",
            Self::Closed => "the server closed the connection",
            Self::Refused => {
                "the connection was refused; check that the server runs at this address"
            }
            Self::ConnectionUnavailable => {
                "no connection could be opened; check this machine's network"
            }
            Self::Network => "the server could not be reached; check the address and the network",
            Self::TooLarge => "the response is larger than allowed",
            Self::InvalidUrl => "the address is not a valid http or https URL",
            Self::Other => {
                "the connection failed below HTTP; check the certificate and the address"
            }
        })
    }
}

impl NetErrorKind {
    /// Sorts an error of the HTTP client by the causes inside it.
    pub(crate) fn of(error: &reqwest::Error) -> Self {
        if error.is_builder() {
            return Self::InvalidUrl;
        }
        if error.is_timeout() {
            return Self::Timeout;
        }
        let mut cause: Option<&(dyn StdError + 'static)> = error.source();
        while let Some(inner) = cause {
            if let Some(http) = inner.downcast_ref::<hyper::Error>()
                && (http.is_incomplete_message() || http.is_closed() || http.is_canceled())
            {
                return Self::Closed;
            }
            if let Some(kind) = inner.downcast_ref::<std::io::Error>().and_then(of_io) {
                return kind;
            }
            cause = inner.source();
        }
        if error.is_connect() {
            Self::Network
        } else {
            Self::Other
        }
    }
}

fn of_io(error: &std::io::Error) -> Option<NetErrorKind> {
    match error.kind() {
        IoKind::ConnectionRefused => Some(NetErrorKind::Refused),
        IoKind::ConnectionReset
        | IoKind::ConnectionAborted
        | IoKind::BrokenPipe
        | IoKind::NotConnected
        | IoKind::UnexpectedEof => Some(NetErrorKind::Closed),
        IoKind::NetworkUnreachable | IoKind::NetworkDown | IoKind::AddrNotAvailable => {
            Some(NetErrorKind::ConnectionUnavailable)
        }
        IoKind::HostUnreachable => Some(NetErrorKind::Network),
        IoKind::TimedOut => Some(NetErrorKind::Timeout),
        // A certificate that is not trusted arrives as invalid data inside the connect error.
        IoKind::InvalidData => Some(NetErrorKind::Other),
        _ => None,
    }
}
