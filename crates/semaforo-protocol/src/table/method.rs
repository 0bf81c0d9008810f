//! A method, by its name.

use super::Method;

/// The names of methods, as an enum.
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

pub(super) use methods;

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
