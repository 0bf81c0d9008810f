//! A client of `echo_raw`: sends one request on each of many connections at once, reads each until
//! the server closes it, and says what was answered, and when.
//!
//! `echo_raw_client 127.0.0.1:13007 25 hello` is twenty-five clients; without arguments it asks a
//! server of its own.

#[allow(dead_code, unreachable_pub, reason = "its main function is not ours")]
#[path = "echo_raw.rs"]
mod echo_raw;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [server, clients, request] => {
            Ok(echo_raw::ask_all(server.parse()?, clients.parse()?, request)?)
        }
        [] => echo_raw::demonstrate(),
        _ => Err("usage: echo_raw_client [SERVER CLIENTS REQUEST]".into()),
    }
}
