//! Calls as a whole: how long, on a CPU or off it, in which layer of the kernel.

use std::collections::BTreeMap;

use dbtime_model::{Frame, State};
use serde::{Serialize, Serializer};

use super::STATES;
use super::paths::{Durations, Paths};
use crate::kernel_layers::{INTERRUPT_ROOT, KernelLayer, PREEMPTION_ROOT, is_call_root, layer_of_frame};

/// Calls that begin with the same function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallSummary {
    /// The function.
    pub function: String,
    /// Their durations, without interrupts and preemption.
    #[serde(flatten)]
    pub durations: Durations,
    /// Nanoseconds by state; states without any are left out.
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
    /// On a CPU, or the state off CPU.
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
    // The layer of each path as in [`crate::kernel_layers`]: its caller's if its function is in none. None for what is not part of a call.
    // Callers come before their callees.
    let mut layers: Vec<Option<KernelLayer>> = Vec::with_capacity(paths.nodes.len());
    for node in &paths.nodes {
        let above = match node.parent {
            Some(caller) => layers[caller],
            None => is_call_root(&node.symbol).then_some(KernelLayer::Other),
        };
        let frame = Frame {
            symbol: node.symbol.clone(),
            module: node.module.clone(),
            build_id: String::new(),
            offset: 0,
        };
        let layer = above.map(|above| layer_of_frame(&frame).unwrap_or(above));
        layers.push(layer);
        let layer = match layer {
            None => continue,
            // Real interrupts have their own paths: what remains of that layer within a call is its timers.
            Some(KernelLayer::Interrupt) => "timers",
            Some(layer) => layer.as_str(),
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
