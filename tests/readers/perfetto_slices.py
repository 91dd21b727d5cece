"""Decodes a Perfetto trace with the protos of Perfetto's own Python package and adds up its slices: perfetto_slices.py FILE.

Prints as JSON, for every session, the time of each stack of slices in nanoseconds. A slice that ends without having begun,
or begins before the end of the one before it on its level, is an error.
"""

import collections
import json
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

trace = protos.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

tracks = {}
open_slices = collections.defaultdict(list)
moments = collections.defaultdict(int)
stacks = collections.defaultdict(lambda: collections.defaultdict(int))
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id == 1
    if packet.HasField("track_descriptor"):
        descriptor = packet.track_descriptor
        assert descriptor.uuid not in tracks
        tracks[descriptor.uuid] = descriptor.name
        assert not descriptor.HasField("parent_uuid") or descriptor.parent_uuid in tracks
    if packet.HasField("track_event"):
        event = packet.track_event
        names = open_slices[event.track_uuid]
        assert packet.timestamp >= moments[event.track_uuid], "time runs backwards"
        passed = packet.timestamp - moments[event.track_uuid]
        moments[event.track_uuid] = packet.timestamp
        if names and passed:
            stacks[tracks[event.track_uuid]][";".join(names)] += passed
        if event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
            names.append(event.name)
        else:
            assert event.type == protos.TrackEvent.TYPE_SLICE_END
            names.pop()
assert not any(open_slices.values()), "slices that do not end"
json.dump({"tracks": sorted(tracks.values()), "stacks": stacks}, sys.stdout)
