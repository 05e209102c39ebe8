//! Operators over many images, streamed through bounded memory.
