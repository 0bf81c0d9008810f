//! At a terminal: Ctrl-C, Ctrl-Z and what is said while waiting.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::support::{SEMAFORO, Server, attentive, wait_until};

/// A person at a terminal, with a shell.
struct Terminal {
    shell: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    fn new(server: &Server) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let device = File::options().read(true).write(true).open(name).unwrap();
        let mut bash = attentive("bash");
        bash.args(["--norc", "--noprofile", "--noediting", "-i"])
            .env("PS1", "ready> ")
            .env("SEMAFORO_SERVER", &server.address)
            .env("semaforo", SEMAFORO)
            .current_dir(server.directory.path())
            .stdin(device.try_clone().unwrap())
            .stdout(device.try_clone().unwrap())
            .stderr(device);
        // SAFETY: both are only system calls.
        unsafe {
            bash.pre_exec(|| {
                setsid()?;
                Ok(ioctl_tiocsctty(rustix::stdio::stdin())?)
            });
        }
        let shell = bash.spawn().unwrap();
        // The terminal closes when no process here has it any more.
        drop(bash);
        let keyboard = File::from(master);
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut output, shown) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        let mut terminal = Self { shell, keyboard, screen };
        terminal.wait_for("ready> ");
        terminal
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Until it is on the screen; what is before it is forgotten.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let screen = Arc::clone(&self.screen);
        wait_until(&format!("{text:?} is shown: {screen:?}"), || {
            let mut screen = screen.lock().unwrap();
            let found = screen.find(text);
            if let Some(place) = found {
                screen.replace_range(..place + text.len(), "");
            }
            found.is_some()
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// What is typed must not be what is waited for.
const RUN: &str = "$semaforo run --lock a -- bash -c 'echo u''p; exec sleep 1000'";

#[test]
fn an_interrupt_ends_the_command_and_the_script() {
    let server = Server::start();
    let mut terminal = Terminal::new(&server);
    terminal.press(&format!("{RUN}; echo status $?\n"));
    terminal.wait_for("up\r\n");
    terminal.press("\x03");
    terminal.wait_for("ready> ");
    terminal.press("echo status $?\n");
    terminal.wait_for("status 130");
    terminal.wait_for("ready> ");

    // A script stops as it would if the command had been started without us.
    terminal.press(&format!("bash -c \"{RUN}; echo went on >> after\"; echo fin''ished $?\n"));
    terminal.wait_for("up\r\n");
    terminal.press("\x03");
    terminal.wait_for("ready> ");
    assert!(!server.directory.file("after").exists());
    server.print(&["run", "--lock", "a", "--timeout", "0s", "--", "true"]);
}

#[test]
fn a_job_is_stopped_and_continued() {
    let server = Server::start();
    let mut terminal = Terminal::new(&server);
    let script =
        "trap \"echo ba''ck\" CONT; echo u''p; while ! read -t 0.1 x; do :; done; echo got $x";
    terminal.press(&format!("$semaforo run --lock a -- bash -c '{script}'\n"));
    terminal.wait_for("up\r\n");
    terminal.press("\x1a");
    terminal.wait_for("Stopped");
    terminal.wait_for("ready> ");
    // The terminal is the shell's again.
    terminal.press("echo he''re\n");
    terminal.wait_for("here\r\n");
    terminal.press("fg\n");
    terminal.wait_for("back\r\n");
    terminal.press("this\n");
    terminal.wait_for("got this\r\n");
    terminal.wait_for("ready> ");
}

#[test]
fn what_a_script_starts_in_the_background_leaves_it_the_terminal() {
    let server = Server::start();
    let mut terminal = Terminal::new(&server);
    let run = "$semaforo run --lock a -- bash -c 'touch began; exec sleep 1000'";
    let script =
        format!("{run} & until [ -e began ]; do sleep 0.01; done; read x; echo got $x; kill $!");
    std::fs::write(server.directory.file("script"), script).unwrap();
    terminal.press("bash script\n");
    wait_until("it runs", || server.directory.file("began").exists());
    terminal.press("this\n");
    terminal.wait_for("got this\r\n");
    terminal.wait_for("ready> ");
}

#[test]
fn one_line_says_who_is_before_us() {
    let server = Server::start();
    let mut terminal = Terminal::new(&server);
    let held = server.print(&["lock", "acquire", "a"]);
    let session = held.lines().next().unwrap().strip_prefix("session=").unwrap();
    terminal.press("$semaforo run --lock a -- echo to''gether\n");
    terminal.wait_for("\rwaiting for lock a: 1st in line, held by tester@");
    terminal.wait_for("\rwaiting for lock a: 1st in line, held by tester@");
    server.print(&["session", "close", session]);
    // The line is taken away first.
    terminal.wait_for("\r\x1b[Ktogether\r\n");
    terminal.wait_for("ready> ");
}

#[test]
fn a_message_is_shown_on_a_terminal_harmlessly_and_handed_to_a_program_as_it_is() {
    let server = Server::start();
    server.print(&["queue", "create", "q"]);
    let text = "red \u{1b}[31m\u{9b}0m\u{7f}, two\nlines";
    for _ in 0..2 {
        server.print(&["queue", "put", "q", "--raw", text]);
    }
    assert_eq!(server.print(&["queue", "take", "q", "--raw"]), format!("{text}\n"));
    let mut terminal = Terminal::new(&server);
    terminal.press("$semaforo queue take q --raw\n");
    terminal.wait_for("red \\u001b[31m\\u009b0m\\u007f, two\r\nlines");
}
