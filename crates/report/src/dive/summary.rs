//! Calls as a whole: how long, on a CPU or off it, in which layer of the kernel.

use std::collections::BTreeMap;

use dbtime_model::{Frame, State};
use serde::{Serialize, Serializer};

use super::STATES;
use super::paths::{Durations, Paths};
use crate::kernel_layers::{INTERRUPT_ROOT, KernelLayer, PREEMPTION_ROOT, is_call_root, kernel_layer};

/// Calls that begin with the same function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallSummary {
    /// The function.
    pub function: String,
    /// How long they were, without interrupts and preemption.
    #[serde(flatten)]
    pub durations: Durations,
    /// By state: nanoseconds, states without any left out.
    #[serde(serialize_with = "by_name")]
    pub states: Vec<(State, u128)>,
}

fn by_name<S: Serializer>(states: &[(State, u128)], to: S) -> Result<S::Ok, S::Error> {
    let states = states.iter().map(|(state, ns)| (state.as_str(), ns));
    states.collect::<BTreeMap<_, _>>().serialize(to)
}

/// A part of the time of calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerPart {
    /// Layer of the kernel, or `off CPU`.
    pub layer: String,
    /// On a CPU, or in which state not.
    pub state: State,
    /// Nanoseconds.
    pub ns: u128,
}

/// Calls by their function, then interrupts and preemption in nanoseconds.
pub(super) fn calls(paths: &Paths) -> (Vec<CallSummary>, u128, u128) {
    let calls = paths
        .roots
        .iter()
        .filter(|root| is_call_root(&paths.nodes[**root].symbol))
        .map(|root| {
            let mut states = [0u128; STATES.len()];
            paths.each(*root, &mut |node| {
                for (sum, ns) in states.iter_mut().zip(node.own) {
                    *sum += ns;
                }
            });
            CallSummary {
                function: paths.nodes[*root].symbol.clone(),
                durations: paths.nodes[*root].durations.clone(),
                states: STATES.into_iter().zip(states).filter(|(_, ns)| *ns > 0).collect(),
            }
        })
        .collect();
    (
        calls,
        paths.foreign_ns(INTERRUPT_ROOT),
        paths.foreign_ns(PREEMPTION_ROOT),
    )
}

/// Time of calls by layer.
pub(super) fn layers(paths: &Paths) -> Vec<LayerPart> {
    let mut sums: BTreeMap<(String, State), u128> = BTreeMap::new();
    for (number, node) in paths.nodes.iter().enumerate() {
        let mut frames = Vec::new();
        let mut at = Some(number);
        while let Some(above) = at {
            let node = &paths.nodes[above];
            frames.push(Frame {
                symbol: node.symbol.clone(),
                module: node.module.clone(),
                build_id: String::new(),
                offset: 0,
            });
            at = node.parent;
        }
        frames.reverse();
        if frames.first().is_some_and(|root| !is_call_root(&root.symbol)) {
            continue;
        }
        let layer = match kernel_layer(&frames).0 {
            // Real interrupts have paths of their own: what is left of that layer in a call is its timers.
            KernelLayer::Interrupt => "timers",
            layer => layer.as_str(),
        };
        for (state, ns) in STATES.into_iter().zip(node.own).filter(|(_, ns)| *ns > 0) {
            let layer = match state {
                State::Kernel | State::Unknown => layer,
                _ => "off CPU",
            };
            *sums.entry((layer.to_string(), state)).or_default() += ns;
        }
    }
    let mut layers: Vec<LayerPart> = sums
        .into_iter()
        .map(|((layer, state), ns)| LayerPart { layer, state, ns })
        .collect();
    layers.sort_by_key(|part| std::cmp::Reverse(part.ns));
    layers
}
