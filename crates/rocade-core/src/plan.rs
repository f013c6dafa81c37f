//! Which HCAs stand behind which resource, and why.
