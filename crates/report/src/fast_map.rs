//! Maps that are asked for every row: with a hash that takes a fraction of the time of the usual one. It has a random seed, so that no names
//! in a recording can be chosen to collide.

use std::collections::HashMap;

use foldhash::fast::RandomState;

pub(crate) type FastMap<K, V> = HashMap<K, V, RandomState>;
