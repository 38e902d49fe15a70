//! Checks what the runtimes of a target lack.

use onnx::kernels::{Lack, Target, audit_bytes};

use super::Findings;
use crate::Document;

pub(super) fn check(document: &Document<'_>, target: Target, findings: &mut Findings) {
    let found = match audit_bytes(document.bytes, target) {
        Ok(found) => found,
        Err(why) => {
            let message = format_args!("the runtimes were not checked: {why}");
            return findings.warning("target", None, message);
        }
    };
    for finding in found {
        let rule = match finding.lack {
            Lack::Opset { .. } => "target-opset",
            Lack::Fallback { .. } => {
                findings.warning("target-fallback", finding.node, format_args!("{finding}"));
                continue;
            }
            Lack::Unknown => {
                findings.warning("target-unknown", finding.node, format_args!("{finding}"));
                continue;
            }
            lack if lack.is_wrong() => "target-wrong",
            _ => "target-missing",
        };
        let message = format_args!("{finding}");
        if finding.lack.depends_on_numbers() {
            findings.warning(rule, finding.node, message);
        } else {
            findings.error(rule, finding.node, message);
        }
    }
}
