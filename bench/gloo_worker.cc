// All-reduce by Gloo over TCP on loopback: a process that bench/processes.py
// compares with others.
//
// usage: gloo_worker ring|bcube FOLDER RANK RANKS
//
// FOLDER is empty; the processes find each other through it.

#include <gloo/allreduce.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <exception>
#include <iostream>
#include <memory>
#include <string>

#include "bench/serve_calls.h"

namespace tutti {
namespace {

using Algorithm = gloo::AllreduceOptions::Algorithm;

std::shared_ptr<gloo::rendezvous::Context> Connect(const char* folder, int rank,
                                                   int num_ranks) {
  auto device = gloo::transport::tcp::CreateDevice(
      gloo::transport::tcp::attr("127.0.0.1"));
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, num_ranks);
  context->connectFullMesh(store, device);
  return context;
}

std::string AllReduce(const std::shared_ptr<gloo::Context>& context,
                      Algorithm algorithm, const TimedCall& call) {
  if (call.collective != "all_reduce") return "only all_reduce is compared";
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(algorithm);
  // Gloo only reads the input, but requires a pointer to non-const.
  options.setInput(const_cast<float*>(call.input), call.num_elements);
  options.setOutput(call.output, call.num_elements);
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, size_t)>(
          &gloo::sum<float>));
  gloo::allreduce(options);
  return "";
}

int Main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: gloo_worker ring|bcube FOLDER RANK RANKS\n";
    return 2;
  }
  const Algorithm algorithm =
      std::string(argv[1]) == "bcube" ? Algorithm::BCUBE : Algorithm::RING;
  const int rank = std::stoi(argv[3]);
  const int num_ranks = std::stoi(argv[4]);
  const auto context = Connect(argv[2], rank, num_ranks);
  std::cout << "READY Gloo " << GLOO_VERSION_MAJOR << '.' << GLOO_VERSION_MINOR
            << '.' << GLOO_VERSION_PATCH << std::endl;
  ServeCalls(rank, num_ranks, [&](const TimedCall& call) {
    return AllReduce(context, algorithm, call);
  });
  return 0;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  try {
    return tutti::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "gloo_worker: " << error.what() << '\n';
    return 1;
  }
}
