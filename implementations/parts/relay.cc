#include "implementations/parts/relay.h"

namespace tutti {

void AddRelay(const Relay& relay, ScheduleBuilder& builder) {
  const bool is_source = relay.parent < 0;
  auto own = builder.AddLane();
  std::vector<StepRef> arrived;
  for (const int chunk : relay.chunks) {
    if (is_source) {
      own.Copy(Data(chunk), Input(chunk));
      arrived.emplace_back();
    } else {
      arrived.push_back(own.Recv(relay.parent, /*tag=*/chunk, Data(chunk)));
    }
  }
  for (const int child : relay.children) {
    auto lane = builder.AddLane();
    for (size_t i = 0; i < relay.chunks.size(); ++i) {
      const int chunk = relay.chunks[i];
      lane.Send(child, /*tag=*/chunk, is_source ? Input(chunk) : Data(chunk),
                arrived[i]);
    }
  }
}

}  // namespace tutti
