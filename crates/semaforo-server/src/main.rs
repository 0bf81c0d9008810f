//! The binary `semaforo`.

fn main() -> std::process::ExitCode {
    semaforo_server::cli::main(std::env::args_os())
}
