"""Decodes an OTLP request of profiles with OpenTelemetry's own protos and adds up its stacks: otlp_profiles.py FILE.

Prints as JSON the resource's attributes and, for each kind of value, the sum of every stack (its attributes, then its frames, root
first; kernel frames end in _[k]) and of every second. A reference that leads nowhere, or a table whose first entry is not empty, is
an error.
"""

import collections
import json
import sys

from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as protos

request = protos.ExportProfilesServiceRequest()
with open(sys.argv[1], "rb") as file:
    request.ParseFromString(file.read())
dictionary = request.dictionary
for table in dictionary.DESCRIPTOR.fields:
    first = getattr(dictionary, table.name)[0]
    assert first == ("" if table.name == "string_table" else type(first)()), f"{table.name} begins with an entry"
strings = dictionary.string_table
assert len(set(strings)) == len(strings), "a text is there twice"


def attributes(indices):
    for index in indices:
        assert index > 0
        attribute = dictionary.attribute_table[index]
        yield strings[attribute.key_strindex], attribute.value.string_value


def frame(index):
    assert index > 0
    location = dictionary.location_table[index]
    (line,) = location.lines
    kind = dict(attributes(location.attribute_indices))["profile.frame.type"]
    return strings[dictionary.function_table[line.function_index].name_strindex] + {"kernel": "_[k]", "native": ""}[kind]


profiles = {}
(of_resource,) = request.resource_profiles
(of_scope,) = of_resource.scope_profiles
for profile in of_scope.profiles:
    stacks, seconds = collections.Counter(), collections.Counter()
    for sample in profile.samples:
        assert len(sample.timestamps_unix_nano) in (0, len(sample.values))
        frames = [frame(index) for index in dictionary.stack_table[sample.stack_index].location_indices]
        levels = [f"{key}={value}" for key, value in attributes(sample.attribute_indices)]
        stacks[";".join(levels + frames[::-1])] += sum(sample.values)
        for time, value in zip(sample.timestamps_unix_nano, sample.values):
            assert profile.time_unix_nano <= time < profile.time_unix_nano + profile.duration_nano
            seconds[time // 10**9] += value
    profiles[strings[profile.sample_type.type_strindex]] = {
        "unit": strings[profile.sample_type.unit_strindex],
        "stacks": stacks,
        "seconds": seconds,
        "duration": profile.duration_nano,
    }
json.dump(
    {
        "resource": {a.key: a.value.string_value for a in of_resource.resource.attributes},
        "scope": of_scope.scope.name,
        "profiles": profiles,
    },
    sys.stdout,
)
