"""The Ray side of ``pagetoll sweep --on ray``: ``python3 -m pagetoll.executor [--address A]``.

It reads jobs from stdin and writes results to stdout, a JSON object a line, results as they come:

- in: ``{"id": "3fa0...", "argv": ["/usr/bin/pagetoll", "bill", ...], "host": null}``, then the end of the file;
- out: ``{"id", "node", "exit", "stdout", "stderr", "seconds"}`` for each job, and ``{"lost": "node", "id"}`` where a
  node was lost while it ran the job, which is then run on another.

Exit codes: 0 all jobs have results, 2 a line is no job, 3 Ray is not installed or the cluster is gone, 128 + N after
signal N. Nodes need Ray and this Python's version, not this package.

``supervisor`` keeps the exit code and the streams in order whatever Ray does to its process, ``driver`` gives jobs to
nodes, ``cluster`` is all that knows Ray, ``node`` is what runs on a node, and ``protocol`` the lines.
"""
