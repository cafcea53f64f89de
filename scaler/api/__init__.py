"""How others ask: KEDA over gRPC, people and gateways over HTTP. Nothing here decides; it translates what the board holds."""
