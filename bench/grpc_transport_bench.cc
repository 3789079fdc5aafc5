// Cost of a transfer between two tasks of this host: through a TCP socket or a
// Unix socket of gRPC, or directly from the other task's memory (`path` 0, 1,
// 2). A plain TCP stream runs beside it: the counter "tcp" is its speed,
// "of_tcp" the ratio.

#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "remote/fake_services.h"
#include "remote/grpc/connection/loopback_listeners.h"
#include "remote/transport.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"

namespace tutti {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

// Two connected TCP sockets on loopback.
class TcpPair {
 public:
  TcpPair() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    from_ = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, plain, size) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, plain, &size) == 0 &&
        connect(from_, plain, size) == 0) {
      to_ = accept(listener, nullptr, nullptr);
    }
    close(listener);
  }
  ~TcpPair() {
    close(from_);
    close(to_);
  }
  TcpPair(const TcpPair&) = delete;
  TcpPair& operator=(const TcpPair&) = delete;

  // Seconds to move `from` into `to`.
  double Move(const std::vector<std::byte>& from, std::vector<std::byte>& to) {
    const auto begin = steady_clock::now();
    std::thread sender([&] {
      for (size_t sent = 0; sent < from.size();) {
        const ssize_t n =
            send(from_, from.data() + sent, from.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) return;
        sent += static_cast<size_t>(n);
      }
    });
    for (size_t got = 0; got < to.size();) {
      const ssize_t n = recv(to_, to.data() + got, to.size() - got, 0);
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    const double seconds =
        duration<double>(steady_clock::now() - begin).count();
    sender.join();
    return seconds;
  }

 private:
  int from_ = -1;
  int to_ = -1;
};

// A receiver that waits for a number of transfers, all into the same buffer.
class Sink final : public Receiver {
 public:
  explicit Sink(size_t num_bytes) : bytes_(num_bytes) {}

  absl::Status OnPart(int32_t /*id*/, size_t offset,
                      absl::Span<const std::byte> part) override {
    std::memcpy(bytes_.data() + offset, part.data(), part.size());
    return absl::OkStatus();
  }
  void OnDelivery(int32_t /*id*/, absl::Status status,
                  Delivery /*delivery*/) override {
    MutexLock lock(&mu_);
    if (!status.ok()) status_ = std::move(status);
    ++num_reported_;
    changed_.SignalAll();
  }
  absl::Status Wait(int count) {
    MutexLock lock(&mu_);
    while (num_reported_ < count) changed_.Wait(&mu_);
    num_reported_ = 0;
    return status_;
  }

 private:
  std::vector<std::byte> bytes_;
  Mutex mu_;
  CondVar changed_;
  int num_reported_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

class NoSender final : public Sender {
 public:
  void OnReleased(int32_t /*id*/, absl::Status /*status*/) override {}
};

int FromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Way of the bytes from one task to the other.
enum class Path { kTcp, kUnixSocket, kMemory };

// Two tasks in this process.
struct Tasks {
  explicit Tasks(Path path) {
    ClusterSpec cluster;
    LoopbackListeners listeners[2];
    for (LoopbackListeners& of_task : listeners) {
      of_task = *LoopbackListeners::Open();
      cluster.addresses.push_back(of_task.address);
    }
    for (int task = 0; task < 2; ++task) {
      cluster.this_task = task;
      auto transport = CreateGrpcTransport(
          {.cluster = cluster,
           .incarnation = 1,
           .environment = environment.get(),
           .job_id = "bench",
           .listeners = listeners[task].Release(),
           .bounds = {.max_frame_bytes =
                          static_cast<size_t>(FromEnvironment("FRAME_KB", 4096))
                          << 10},
           .transfer_lanes = FromEnvironment("LANES", 1),
           .same_host_socket = path != Path::kTcp,
           .same_host_memory = path == Path::kMemory});
      transports.push_back(*std::move(transport));
      status.Update(transports[task]->Start(&control, &tables[task]));
    }
  }

  DefaultEnvironment environment;
  absl::Status status;
  FunctionService control{[](const ControlCaller&, const proto::ControlRequest&,
                             std::shared_ptr<Cancellation>, ControlDone done) {
    std::move(done)(proto::ControlReply());
  }};
  TableService tables[2];
  std::vector<std::shared_ptr<Transport>> transports;
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Moves `bytes` in each of `concurrent` transfers, by a `path`.
void BM_Pull(benchmark::State& state) {
  const auto num_bytes = static_cast<size_t>(state.range(0));
  const auto concurrent = static_cast<int>(state.range(1));
  Tasks tasks(static_cast<Path>(state.range(2)));
  const std::vector<std::byte> from(num_bytes);
  NoSender sender;
  Sink sink(num_bytes);
  int tag = 0;
  const auto pull = [&](size_t size) {
    const BufKey key{.tag = ++tag};
    tasks.tables[1].Provide(
        key, {.bytes = absl::MakeSpan(from).first(size), .sender = &sender});
    tasks.transports[0]->transfers().Request(
        1, key, {.num_bytes = size, .dtype = DType::kUint8, .receiver = &sink});
  };
  pull(1);  // Connects.
  sink.Wait(1).IgnoreError();
  TcpPair tcp;
  const std::vector<std::byte> tcp_from(num_bytes * concurrent);
  std::vector<std::byte> tcp_to(num_bytes * concurrent);
  std::vector<double> seconds, tcp_seconds;
  for (auto _ : state) {
    const auto begin = steady_clock::now();
    for (int i = 0; i < concurrent; ++i) pull(num_bytes);
    const absl::Status status = sink.Wait(concurrent);
    seconds.push_back(duration<double>(steady_clock::now() - begin).count());
    state.SetIterationTime(seconds.back());
    if (!status.ok()) {
      state.SkipWithError(status.ToString().c_str());
      break;
    }
    if (num_bytes >= 65536) tcp_seconds.push_back(tcp.Move(tcp_from, tcp_to));
  }
  for (auto& transport : tasks.transports) transport->Shutdown();
  if (seconds.empty()) return;
  const double total = static_cast<double>(num_bytes) * concurrent;
  state.counters["median_us"] = Median(seconds) * 1e6;
  state.counters["pull"] =
      benchmark::Counter(total / Median(seconds), benchmark::Counter::kDefaults,
                         benchmark::Counter::kIs1024);
  if (tcp_seconds.empty()) return;
  state.counters["tcp"] = benchmark::Counter(total / Median(tcp_seconds),
                                             benchmark::Counter::kDefaults,
                                             benchmark::Counter::kIs1024);
  state.counters["of_tcp"] = Median(tcp_seconds) / Median(seconds);
}
BENCHMARK(BM_Pull)
    ->ArgNames({"bytes", "concurrent", "path"})
    ->ArgsProduct({{4}, {1, 64}, {0, 1}})
    ->ArgsProduct({{64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20,
                    64 << 20},
                   {1},
                   {0, 1, 2}})
    ->ArgsProduct({{4 << 20}, {8}, {0, 1, 2}})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tutti
