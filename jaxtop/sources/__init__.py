"""Sources of frames: the live cluster and recordings of it; and the recorder.

What is where, in the order in which to read it:

- source.py: what every live source can do
- live.py: the live source, which follows every agent of its runs
- discovery.py: finds agents by targets, host files or run files
- address_search.py: the search for agents at the given addresses
- mapping.py: addresses that are dialled in place of advertised ones
- rosters.py: runs that lack processes, and the requests for their rosters
- peers.py: the agents that are followed, and their connections
- connection.py: the state of the connection to one address
- evidence.py: what an address proves about a silent process
- paths.py: which path to an agent is used
- descriptors.py: the file descriptors left for connections
- backlog.py: a bounded queue of frames
- requests.py: requests to agents
- relays.py: the requests of a live source to relays
- session.py: a recorded session, the cluster at any time
- streams.py: the files of each writer in order, and all writers by time
- starts.py: where the folding of a session begins
- overview.py: the summary of a session over time
- recorder.py: records frames and keyframes
"""

from jaxtop.sources.address_search import Seed
from jaxtop.sources.live import LiveSource
from jaxtop.sources.recorder import SessionRecorder
from jaxtop.sources.session import Session
from jaxtop.sources.source import Source

__all__ = ["LiveSource", "Seed", "Session", "SessionRecorder", "Source"]
