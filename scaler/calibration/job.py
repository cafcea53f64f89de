"""The Kubernetes Job that runs a sweep beside the replica, in an image that has a load tester and this program."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

LONGEST_NAME = 52
"""A Job's pods add to its name, and 63 characters is the most."""
FOLDER = "/sweep/results"

_JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  backoffLimit: 3               # a container that is started again goes on where it was
  ttlSecondsAfterFinished: 86400  # the answer is in its log: kubectl logs job/{name}
  template:
    metadata:
      labels: {{app.kubernetes.io/name: {name}}}
    spec:
      restartPolicy: OnFailure
      automountServiceAccountToken: false
      securityContext: {{runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {{type: RuntimeDefault}}}}
      containers:
        - name: calibrate
          image: {image}
          command: [slo-scaler]
          args:
{arguments}
          env:
            - {{name: HOME, value: /sweep}}
            - name: OPENAI_API_KEY
              valueFrom: {{secretKeyRef: {{name: {name}, key: api-key, optional: true}}}}
          resources:            # a load tester that lacks CPU reports latencies of its own
            requests: {{cpu: "2", memory: 2Gi}}
            limits: {{memory: 4Gi}}
          securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
          volumeMounts:
            - {{name: work, mountPath: /sweep}}
      volumes:
        - name: work
          emptyDir: {{}}          # a persistentVolumeClaim here keeps the load tester's files
"""


def job(called: str, image: str, arguments: Sequence[str]) -> str:
    """The manifest. ``called`` is what the sweep is about; ``arguments`` are those of ``slo-scaler calibrate``."""
    stem = re.sub(r"[^a-z0-9]+", "-", called.lower())
    name = f"calibrate-{stem}"[:LONGEST_NAME].strip("-")
    lines = "\n".join(f"            - {json.dumps(word)}" for word in ("calibrate", *arguments))
    return _JOB.format(name=name, image=json.dumps(image), arguments=lines)
