#ifndef TUTTI_IMPLEMENTATION_H_
#define TUTTI_IMPLEMENTATION_H_

// Implementations of collectives: what one gets (CollectiveContext,
// Execution), what one does (CollectiveImplementationInterface), what one
// can (ImplementationTraits), and the registry that REGISTER_COLLECTIVE
// fills. For authors of implementations that are no schedules; schedule.h
// serves the others.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// State that the members of this process share in one execution of an instance.
// Once all have left and nobody else holds it, it may get another number and be
// used again, unless it failed.
class Execution {
 public:
  Execution(InstanceId id, uint64_t number) : id(id), number(number) {}
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  const InstanceId id;
  uint64_t number;  // Stays the same while anybody is in it.

  // The execution's fate: set once it fails.
  Cancellation cancellation;

  // Members that have launched it.
  std::atomic<size_t> num_launched{0};

  // What the members share for this execution alone, as implementations like:
  // one object, made from `cancellation` on first use, of the same type in each
  // call. It lives as long as this does; one that is used again finds it as the
  // last execution left it.
  template <typename T>
  T& Shared() {
    void* shared = made_shared_.load(std::memory_order_acquire);
    return *static_cast<T*>(shared != nullptr ? shared : MakeShared<T>());
  }

 private:
  template <typename T>
  void* MakeShared() {
    std::call_once(shared_once_, [this] {
      shared_ = std::make_shared<T>(cancellation);
      made_shared_.store(shared_.get(), std::memory_order_release);
    });
    return shared_.get();
  }

  std::once_flag shared_once_;
  std::shared_ptr<void> shared_;             // Written once, under the flag.
  std::atomic<void*> made_shared_{nullptr};  // What it owns, once it is made.
};

class CollectiveExecutor;

// How results are written where the members share memory.
enum class StoreHint : uint8_t {
  kBySize,      // Past the caches if they would not stay there anyway.
  kToCaches,    // For who reads them soon, however large they are.
  kPastCaches,  // For who reads them late: spares what is in the caches.
};

// What one member's part in one execution gets. All of it is checked: the
// tensors have the dtype and shape that the params say.
struct CollectiveContext {
  const CollectiveParams* params = nullptr;  // Valid as the context is.
  CollectiveExecutor* executor = nullptr;
  Device* device = nullptr;
  Tensor input;   // Unset where the member has none.
  Tensor output;  // Unset where the member has none, or `late_output` is set.

  // Where the implementation puts the output that it makes for this member, or
  // for all that have this, before `done`. It may hold the one of the context's
  // last execution, which is then free to be written again. Null but for
  // implementations that share outputs, where the member allows it.
  Tensor* late_output = nullptr;

  // What input and output are made of, if not of one tensor each
  // (CollectiveArgs::segments). An implementation that does not take segments
  // (ImplementationTraits) has input and output all the same.
  std::shared_ptr<const SegmentList> segments;

  StoreHint store_hint = StoreHint::kBySize;

  // Where the output is once the implementation has ended.
  const Tensor& result() const {
    return late_output == nullptr ? output : *late_output;
  }

  ExecKey exec_key;

  // Its `cancellation` is set when the execution fails: on this member, on
  // another one, by abort, deadline or cancellation.
  Execution* execution = nullptr;

  // The tags of its transfers count from here. Not 0 where an implementation
  // runs another one several times in an execution: schedules heed it.
  int32_t first_tag = 0;

  // For the implementation, from InitializeCollectiveContext() to Run().
  const void* implementation_state = nullptr;

  // Kept by CollectiveExecutor::Launched(); set by an implementation that
  // launches by another context in the place of this one.
  mutable std::atomic<bool> launched{false};

  int rank() const { return params->default_rank; }
};

// How a collective is done. One object serves one member of one instance, for
// all its executions, of which several may run at a time.
//
// Thread-safe. Once `done` has begun, the context that was given to Run() may
// be that of another execution, and this object may be gone, also while Run()
// is under way: neither is looked at any more.
class CollectiveImplementationInterface {
 public:
  virtual ~CollectiveImplementationInterface() = default;

  // On the group's leader, once per instance, before any member hears of the
  // choice: completes `instance->impl_details`. Errors end the instance on all
  // members. Must not call the resolver.
  virtual absl::Status InitializeCollectiveParams(
      const CollGroupParams& /*group*/, CollInstanceParams* /*instance*/) {
    return absl::OkStatus();
  }

  // On the group's leader, once per group, for each registered implementation
  // that serves the group's device type, and whose needs of devices the group
  // meets: adds what it needs to `group->runtime_details`. Errors end the
  // group.
  virtual absl::Status InitializeCollectiveGroupRuntimeDetails(
      CollGroupParams* /*group*/) {
    return absl::OkStatus();
  }

  // Before the first execution that has this context: finds what it needs, but
  // for what belongs to an execution. A prepared collective runs with one
  // context again and again. Errors end the execution.
  virtual absl::Status InitializeCollectiveContext(
      CollectiveContext* context) = 0;

  // Runs `done` exactly once, when nothing of the execution touches the
  // context's tensors any more. Calls CollectiveExecutor::Launched() when what
  // must be ordered among collectives has begun; ends soon with an error once
  // `context.execution->cancellation` is set.
  virtual void Run(const CollectiveContext& context, StatusCallback done) = 0;
};

// What a message costs, as in the Hockney model: latency + bytes / bandwidth.
struct LinkCost {
  double latency_seconds = 0;
  double bytes_per_second = 0;
};

// Processors that processes share, as they have not one each.
struct SharedProcessors {
  int num = 0;  // 0: each process has one.

  // What a message between two processes takes of them, on both sides in all.
  LinkCost message;
};

// The links of a machine.
struct CostModel {
  // From member to member in one process; each member has that bandwidth.
  LinkCost within = {.latency_seconds = 1e-6, .bytes_per_second = 5e9};

  // From process to process; the members of a process share the bandwidth.
  // About what a call and a stream of slices over gRPC come to on loopback (2
  // cores, Zen 5, idle).
  LinkCost between = {.latency_seconds = 50e-6, .bytes_per_second = 2.5e9};

  // How much longer each further message takes that enters or leaves a process
  // at the same time as another one: a gap, as in LogP (D. Culler et al.,
  // "LogP: towards a realistic model of parallel computation", PPoPP 1993).
  // Fitted to times on loopback (2 virtual processors of an Intel Xeon, 22
  // November 2026).
  double between_gap_seconds = 40e-6;

  // What members of several processes set aside as it comes, and read once more
  // later. Over gRPC that was not seen to take time to 16 MiB among 3 and 4;
  // but it takes memory, so from some ten MiB on it decides between those
  // alike.
  double set_aside_bytes_per_second = 1e12;

  // Nothing takes less time than its messages take these.
  SharedProcessors shared;
};

// What an implementation is asked to price. `bytes` is the larger of one
// member's input and output.
struct CostQuery {
  CollectiveType type = CollectiveType::kAllReduce;
  const GroupLayout& layout;
  int64_t bytes = 0;
  CostModel model;
  bool one_process = false;  // Else every task is one.
};

// What a list of ranks (CollImplDetails::rank_list) is to an implementation.
enum class RankListUse : uint8_t {
  kNone,      // It takes none.
  kAllRanks,  // The order of all ranks around a ring.
  kOwners,    // Those that each reduce a piece of the buffer.
};

// What an implementation needs of a group's devices.
struct DeviceNeeds {
  // Each has it (DeviceAttributes::libraries). Empty: none is needed.
  std::string library;

  // No two are on one piece of hardware (DeviceAttributes::unit).
  bool own_units = false;

  // The two above among the members of each task alone: one that is the only
  // member of its task needs nothing.
  bool within_tasks = false;

  // The first member's links lead to all others (DeviceLocality), but for those
  // on its own piece of hardware.
  bool first_reaches_all = false;
};

// What an implementation can do, for choosing among implementations and for
// showing the choice. Immutable once registered.
struct ImplementationTraits {
  std::string summary;  // One line for people.
  std::vector<CollectiveType> collectives;

  // Empty: any whose memory is the host's (Device::has_host_memory()), and any
  // that runs steps (Device::OpenSteps()) where the implementation is made of
  // these.
  std::vector<std::string> device_types;

  DeviceNeeds device_needs;

  // Serves only groups whose leader could make a key
  // (CollGroupParams::runtime_details).
  bool needs_communicator_key = false;

  // Why nobody can run it, whatever is asked, as where an implementation that
  // it is made of is not linked into the program. Asked before its price. The
  // same as long as the program lives. Null: it can be run.
  absl::Status (*check_parts)() = nullptr;

  // Runs schedules (schedule/), and nothing else. Set by Scheduled().
  bool is_made_of_steps = false;

  // Serves only groups whose members are all in one process, whatever tasks
  // they belong to.
  bool needs_one_process = false;

  // The library that runs it (CollectiveDelegate::name()): serves only groups
  // that this one connects, each of whose members is in another process (but
  // see below). Empty: runs by itself.
  std::string delegate;

  // Leaves to it only what goes between processes: members may share one.
  bool delegates_between_processes = false;

  // Reduces strictly from the lowest rank to the highest, so that the merge op
  // need not commute.
  bool preserves_rank_order = false;

  // Why it cannot reduce with these, in words that follow its name; empty if it
  // can. Pure. Null: it can with all, the caller's own too.
  std::string (*why_not_ops)(const MergeOp& merge_op,
                             const FinalOp& final_op) = nullptr;

  // Honours CollImplDetails::subdiv_offsets.
  bool supports_subdivisions = false;

  RankListUse rank_list = RankListUse::kNone;

  // Members' contributions may differ in size (all_gather, all_to_all).
  bool supports_uneven = false;

  // Gives members one output where they allow it (CollectiveArgs): honours
  // CollectiveContext::late_output.
  bool shares_output = false;

  // Reduces the segments of a list where they are (CollectiveArgs): honours
  // CollectiveContext::segments, which members may have or not, each its own.
  // For others they are copied into one tensor before, and out of it
  // afterwards.
  bool takes_segments = false;

  Determinism determinism = Determinism::kFixedLayout;

  // Predicted seconds; pure. Null, or not finite: runs only when named.
  double (*cost_seconds)(const CostQuery& query) = nullptr;
};

// Of `check_parts`, if there is one.
inline absl::Status CheckParts(const ImplementationTraits& traits) {
  return traits.check_parts == nullptr ? absl::OkStatus()
                                       : traits.check_parts();
}

class CollectiveImplementationInterface;

// What stands behind a registered name: its traits, and the making of the
// object that runs one instance of it. Immutable, thread-safe.
class CollectiveFactory {
 public:
  explicit CollectiveFactory(ImplementationTraits traits)
      : traits_(std::move(traits)) {}
  virtual ~CollectiveFactory() = default;

  const ImplementationTraits& traits() const { return traits_; }
  virtual std::unique_ptr<CollectiveImplementationInterface> Create() const = 0;

 private:
  const ImplementationTraits traits_;
};

// A factory for a class with a default constructor:
//   REGISTER_COLLECTIVE(MpiReduce, Implemented<MpiReducer>({.summary = ...}));
template <typename Implementation>
std::shared_ptr<const CollectiveFactory> Implemented(
    ImplementationTraits traits) {
  class Factory : public CollectiveFactory {
   public:
    using CollectiveFactory::CollectiveFactory;
    std::unique_ptr<CollectiveImplementationInterface> Create() const override {
      return std::make_unique<Implementation>();
    }
  };
  return std::make_shared<Factory>(std::move(traits));
}

// Name -> implementation. Thread-safe. Names stay registered for the life of
// the registry.
class CollectiveRegistry {
 public:
  struct Entry {
    std::string name;
    std::shared_ptr<const CollectiveFactory> factory;
  };

  // The registry that REGISTER_COLLECTIVE fills.
  static CollectiveRegistry& Global();

  CollectiveRegistry();
  ~CollectiveRegistry();
  CollectiveRegistry(const CollectiveRegistry&) = delete;
  CollectiveRegistry& operator=(const CollectiveRegistry&) = delete;

  // Errors: ALREADY_EXISTS if the name is taken (the first stays),
  // INVALID_ARGUMENT for an empty name, no factory, or one of no collectives.
  // They are also kept for status(), because static registration has nobody to
  // return them to.
  absl::Status Register(absl::string_view name,
                        std::shared_ptr<const CollectiveFactory> factory);

  // Makes `alias` another name of `name`, whether or not that is registered
  // yet. Errors: ALREADY_EXISTS if `alias` is a name or another alias;
  // INVALID_ARGUMENT for an empty name. They are also kept for status().
  absl::Status RegisterAlias(absl::string_view alias, absl::string_view name);

  // The name for which `name` stands: `name` itself unless it is an alias.
  std::string Resolve(absl::string_view name) const;

  // Errors: NOT_FOUND with the nearest known name, listing all of them.
  absl::StatusOr<std::shared_ptr<const CollectiveFactory>> Find(
      absl::string_view name_or_alias) const;

  // Implementations in the order of names, without aliases.
  std::vector<Entry> List() const;

  // The first error of any registration; a runtime refuses to start with it.
  absl::Status status() const;

 private:
  class Table;

  const std::unique_ptr<Table> table_;
};

namespace internal {

// `(factory) + FactoryOrClass{}` is the factory. `(Class) + FactoryOrClass{}`
// casts +FactoryOrClass{}, which converts to every class, to that class.
struct FactoryOrClass {
  struct AnyClass {
    template <typename T>
    operator T() const {  // NOLINT(google-explicit-constructor)
      return T();
    }
  };
  AnyClass operator+() const { return {}; }
  friend std::shared_ptr<const CollectiveFactory> operator+(
      std::shared_ptr<const CollectiveFactory> factory, FactoryOrClass) {
    return factory;
  }
};

template <typename Make>
std::shared_ptr<const CollectiveFactory> FactoryOf(Make make) {
  using Made = decltype(make());
  if constexpr (std::is_base_of_v<CollectiveImplementationInterface, Made>) {
    return Implemented<Made>(Made::Traits());
  } else {
    return make();
  }
}

}  // namespace internal

// Registers an implementation under `name` when the program starts: a factory,
// or a class with a default constructor and a static member Traits(). Link the
// library with `alwayslink = 1`.
#define REGISTER_COLLECTIVE(name, ...)                                  \
  [[maybe_unused]] static const absl::Status tutti_registered_##name =  \
      ::tutti::CollectiveRegistry::Global().Register(                   \
          #name, ::tutti::internal::FactoryOf([] {                      \
            return (__VA_ARGS__) + ::tutti::internal::FactoryOrClass{}; \
          }))

// Registers another name of an implementation when the program starts.
#define REGISTER_COLLECTIVE_ALIAS(alias, name)                          \
  [[maybe_unused]] static const absl::Status tutti_registered_##alias = \
      ::tutti::CollectiveRegistry::Global().RegisterAlias(#alias, #name)

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATION_H_
