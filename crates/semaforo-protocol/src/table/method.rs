//! The names of the methods.

macro_rules! methods {
    ($($variant:ident $name:literal)*) => {
        /// A method, at whatever it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Method {
            $($variant,)*
        }

        impl Method {
            /// What it is called in a request.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

methods! {
    // Of the server.
    Ping "PING" Echo "ECHO" Auth "AUTH" Cancel "CANCEL" List "LIST" Reload "RELOAD"
    Shutdown "SHUTDOWN"
    // Of sessions.
    Open "OPEN" KeepAlive "KEEPALIVE" Close "CLOSE"
    // Of objects.
    Create "CREATE" Delete "DELETE" Show "SHOW"
    Acquire "ACQUIRE" Release "RELEASE" Check "CHECK" Resize "RESIZE"
    Downgrade "DOWNGRADE" Upgrade "UPGRADE"
    Down "DOWN" Wait "WAIT" Set "SET" Reset "RESET" Arrive "ARRIVE"
    Put "PUT" Transfer "TRANSFER" Take "TAKE" Ack "ACK" Return "RETURN"
}

impl Method {
    /// Whether a request that says `name` means this method. Case does not matter, and what
    /// begins with `ECHO-` is an echo, too.
    #[must_use]
    pub fn is_called(self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.name())
            || (self == Self::Echo
                && name.as_bytes().get(..5).is_some_and(|it| it.eq_ignore_ascii_case(b"ECHO-")))
    }
}
