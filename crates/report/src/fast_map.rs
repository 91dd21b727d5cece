//! Maps that are looked up for every row: their hash takes a fraction of the time of the standard one. Its seed is random, so that names in
//! a recording cannot be chosen to collide.

use std::collections::HashMap;

use foldhash::fast::RandomState;

pub(crate) type FastMap<K, V> = HashMap<K, V, RandomState>;
