//! Lays a recorded host out as files, so that the live filling can read it. Device nodes, and files whose reading
//! fails, have no like on other file systems and are left out.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use rocade_host::{Archive, Node};

/// Writes the tree below `dir`.
pub(crate) fn lay_out(archive: &Archive, dir: &Path) -> io::Result<()> {
    let mut result = Ok(());
    archive.visit(&mut |path, node| {
        if result.is_ok() {
            result = lay_out_node(&dir.join(path.strip_prefix("/").unwrap_or(path)), node);
        }
    });
    result
}

fn lay_out_node(path: &Path, node: &Node) -> io::Result<()> {
    match node {
        Node::Dir(_) => fs::create_dir_all(path),
        Node::File(content) => fs::write(path, content),
        Node::Link(target) => symlink(target, path),
        Node::Skipped | Node::Fail(_) | Node::Char { .. } => Ok(()),
    }
}
