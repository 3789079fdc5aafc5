#ifndef TUTTI_IMPLEMENTATION_H_
#define TUTTI_IMPLEMENTATION_H_

// Implementations of collectives: their input (CollectiveContext, Execution),
// their work (CollectiveImplementationInterface), their abilities
// (ImplementationTraits), and the registry that REGISTER_COLLECTIVE fills.
// Serves authors of implementations that are not schedules; schedule.h serves
// the others.

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
// Unless it failed, an execution may be reused under another number, once all
// members have left and no other reference exists.
class Execution {
 public:
  Execution(InstanceId id, uint64_t number) : id(id), number(number) {}
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  const InstanceId id;
  uint64_t number;  // Constant while any member is in the execution.

  // Set once the execution fails.
  Cancellation cancellation;

  // Number of members that have launched the execution.
  std::atomic<size_t> num_launched{0};

  // Returns the object that the members share for this execution alone. Made
  // from `cancellation` on first use; every call must give the same type. Lives
  // as long as this object. A reused execution keeps the object as the last one
  // left it.
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
  std::atomic<void*> made_shared_{nullptr};  // Object of `shared_`, once made.
};

class CollectiveExecutor;

// Way to write results where the members share memory.
enum class StoreHint : uint8_t {
  kBySize,      // Past the caches if results would not stay there.
  kToCaches,    // For results that are read soon, whatever their size.
  kPastCaches,  // For results that are read late: spares the caches.
};

// Input of one member's part in one execution. Everything is checked: the
// tensors have the dtype and shape given in the params.
struct CollectiveContext {
  const CollectiveParams* params = nullptr;  // Valid as long as the context.
  CollectiveExecutor* executor = nullptr;
  Device* device = nullptr;
  Tensor input;   // Unset if the member has none.
  Tensor output;  // Unset if the member has none, or with `late_output`.

  // Place for an output that the implementation makes, for this member or for
  // all members that have a `late_output`, before `done`. May hold the output
  // of the context's last execution, which may then be written again. Set only
  // for implementations that share outputs, if the member allows it; else null.
  Tensor* late_output = nullptr;

  // Segments that make up input and output (CollectiveArgs::segments); null if
  // each is one tensor. An implementation that does not take segments
  // (ImplementationTraits) gets packed tensors in `input` and `output`.
  std::shared_ptr<const SegmentList> segments;

  StoreHint store_hint = StoreHint::kBySize;

  // Output after the implementation has ended.
  const Tensor& result() const {
    return late_output == nullptr ? output : *late_output;
  }

  ExecKey exec_key;

  // Its `cancellation` is set when the execution fails: on this or another
  // member, or by abort, deadline or cancellation.
  Execution* execution = nullptr;

  // First tag of the implementation's transfers. Not 0 if an implementation
  // runs another one several times in an execution. Schedules add it to their
  // tags.
  int32_t first_tag = 0;

  // State of the implementation, from InitializeCollectiveContext() to Run().
  const void* implementation_state = nullptr;

  // Set by CollectiveExecutor::Launched(). Also set by an implementation that
  // launches through another context in place of this one.
  mutable std::atomic<bool> launched{false};

  int rank() const { return params->default_rank; }
};

// Runs a collective. One object serves one member of one instance, for all its
// executions; several may run at a time.
//
// Thread-safe. Once `done` has begun, nothing reads the context given to Run()
// or this object, even while Run() is still executing: the context may belong
// to another execution, and the object may be destroyed.
class CollectiveImplementationInterface {
 public:
  virtual ~CollectiveImplementationInterface() = default;

  // Completes `instance->impl_details`. Runs on the group's leader, once per
  // instance, before any member learns the choice. Errors end the instance on
  // all members. Must not call the resolver.
  virtual absl::Status InitializeCollectiveParams(
      const CollGroupParams& /*group*/, CollInstanceParams* /*instance*/) {
    return absl::OkStatus();
  }

  // Adds details that the implementation needs to `group->runtime_details`.
  // Runs on the group's leader, once per group, for each registered
  // implementation that serves the group's device type and whose DeviceNeeds
  // the group meets. Errors end the group.
  virtual absl::Status InitializeCollectiveGroupRuntimeDetails(
      CollGroupParams* /*group*/) {
    return absl::OkStatus();
  }

  // Prepares everything that does not depend on a single execution. Runs before
  // the first execution with this context. A prepared collective runs
  // repeatedly with one context. Errors end the execution.
  virtual absl::Status InitializeCollectiveContext(
      CollectiveContext* context) = 0;

  // Runs `done` exactly once, when nothing of the execution uses the context's
  // tensors. Calls CollectiveExecutor::Launched() once the part that must be
  // ordered among collectives has begun. Ends soon with an error once
  // `context.execution->cancellation` is set.
  virtual void Run(const CollectiveContext& context, StatusCallback done) = 0;
};

// Cost of a message as in the Hockney model: latency + bytes / bandwidth.
struct LinkCost {
  double latency_seconds = 0;
  double bytes_per_second = 0;
};

// Processors shared by processes, if there are fewer processors than processes.
struct SharedProcessors {
  int num = 0;  // 0: each process has its own.

  // Processor time of a message between two processes, on both sides together.
  LinkCost message;
};

// Links of a machine.
struct CostModel {
  // Link from member to member in one process. Each member has this bandwidth.
  LinkCost within = {.latency_seconds = 1e-6, .bytes_per_second = 5e9};

  // Link from process to process. The members of a process share the bandwidth.
  // The defaults are close to a call and a stream of slices over gRPC on
  // loopback (2 cores, Zen 5, idle).
  LinkCost between = {.latency_seconds = 50e-6, .bytes_per_second = 2.5e9};

  // Delay of each further message that enters or leaves a process at the same
  // time: a gap, as in LogP (D. Culler et al., "LogP: towards a realistic model
  // of parallel computation", PPoPP 1993). Fitted to times on loopback (2
  // virtual processors of an Intel Xeon, 22 November 2026).
  double between_gap_seconds = 40e-6;

  // Rate for bytes that members of several processes store on arrival and read
  // again later. Over gRPC no cost was measured up to 16 MiB among 3 and 4. The
  // bytes take memory, so from about ten MiB this rate decides between
  // otherwise equal plans.
  double set_aside_bytes_per_second = 1e12;

  // Lower bound on every time: the processor time of its messages.
  SharedProcessors shared;
};

// Request to price a collective. `bytes` is the larger of one member's input
// and output.
struct CostQuery {
  CollectiveType type = CollectiveType::kAllReduce;
  const GroupLayout& layout;
  int64_t bytes = 0;
  CostModel model;
  bool one_process = false;  // Else every task is one process.
};

// Meaning of a list of ranks (CollImplDetails::rank_list) to an implementation.
enum class RankListUse : uint8_t {
  kNone,      // Takes no list.
  kAllRanks,  // The order of all ranks around a ring.
  kOwners,    // Ranks that each reduce a piece of the buffer.
};

// Needs of an implementation from a group's devices.
struct DeviceNeeds {
  // Library that each device has (DeviceAttributes::libraries). Empty: none.
  std::string library;

  // No two devices share one piece of hardware (DeviceAttributes::unit).
  bool own_units = false;

  // Applies `library` and `own_units` among the members of each task only. A
  // member alone in its task then needs nothing.
  bool within_tasks = false;

  // Links of the first member lead to all others (DeviceLocality), except those
  // on its own piece of hardware.
  bool first_reaches_all = false;
};

// Abilities of an implementation, for choosing among implementations and for
// showing the choice. Immutable once registered.
struct ImplementationTraits {
  std::string summary;  // Text of one line.
  std::vector<CollectiveType> collectives;

  // Types of devices served. Empty: any device with host memory
  // (Device::has_host_memory()). If the implementation is made of steps, also
  // any device that runs steps (Device::OpenSteps()).
  std::vector<std::string> device_types;

  DeviceNeeds device_needs;

  // Serves only groups whose leader could make a key
  // (CollGroupParams::runtime_details).
  bool needs_communicator_key = false;

  // Returns an error if nothing can run the implementation, for example because
  // one of its parts is not linked into the program. Called before
  // `cost_seconds`. The result never changes while the program runs. Null:
  // always OK.
  absl::Status (*check_parts)() = nullptr;

  // Runs schedules (schedule/) only. Set by Scheduled().
  bool is_made_of_steps = false;

  // Serves only groups whose members are all in one process, in one or more
  // tasks.
  bool needs_one_process = false;

  // Library that runs the collective (CollectiveDelegate::name()). Serves only
  // groups that this library connects, with one member per process (see
  // `delegates_between_processes`). Empty: runs by itself.
  std::string delegate;

  // Delegates only the part between processes: a process may have several
  // members.
  bool delegates_between_processes = false;

  // Reduces strictly from the lowest rank to the highest, so the merge op need
  // not commute.
  bool preserves_rank_order = false;

  // Reduces all inputs in one step (Fold()) for each element of an output. Only
  // such implementations run an average of integers (IsMeanOfIntegers()): the
  // sums of others wrap around in the dtype on the way.
  bool reduces_at_once = false;

  // Returns the reason why the implementation cannot reduce elements of this
  // dtype with these ops, as words that follow its name. Empty if it can. Pure.
  // Null: can reduce all dtypes with all ops, custom ones included.
  std::string (*why_not_ops)(DType dtype, const MergeOp& merge_op,
                             const FinalOp& final_op) = nullptr;

  // Honours CollImplDetails::subdiv_offsets.
  bool supports_subdivisions = false;

  RankListUse rank_list = RankListUse::kNone;

  // Blocks may differ in size (HasRankBlocks()).
  bool supports_uneven = false;

  // Each member of an all_to_all may know only the rows that it sends and
  // receives (AllToAll::recv_rows). The implementation finds members that
  // differ.
  bool supports_recv_rows = false;

  // Gives members one shared output if they allow it (CollectiveArgs): honours
  // CollectiveContext::late_output.
  bool shares_output = false;

  // Reduces the segments of a list in place (CollectiveArgs): honours
  // CollectiveContext::segments. Each member may have segments or not. For
  // other implementations, the executor copies segments into one tensor before,
  // and out of it afterwards.
  bool takes_segments = false;

  Determinism determinism = Determinism::kFixedLayout;

  // Predicts seconds. Pure. Null or not finite: runs only when named.
  double (*cost_seconds)(const CostQuery& query) = nullptr;
};

// Returns the result of `check_parts`; OK if that is null.
inline absl::Status CheckParts(const ImplementationTraits& traits) {
  return traits.check_parts == nullptr ? absl::OkStatus()
                                       : traits.check_parts();
}

class CollectiveImplementationInterface;

// Entry behind a registered name: its traits, and the creation of the object
// that runs one instance. Immutable, thread-safe.
class CollectiveFactory {
 public:
  explicit CollectiveFactory(ImplementationTraits traits)
      : traits_(std::move(traits)) {}
  virtual ~CollectiveFactory() = default;

  // The same object once all implementations are registered.
  virtual const ImplementationTraits& traits() const { return traits_; }
  virtual std::unique_ptr<CollectiveImplementationInterface> Create() const = 0;

 private:
  const ImplementationTraits traits_;
};

// Factory for a class with a default constructor:
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

// Maps names to implementations. Thread-safe. Names stay registered for the
// life of the registry.
class CollectiveRegistry {
 public:
  struct Entry {
    std::string name;
    std::shared_ptr<const CollectiveFactory> factory;
  };

  // Registry that REGISTER_COLLECTIVE fills.
  static CollectiveRegistry& Global();

  CollectiveRegistry();
  ~CollectiveRegistry();
  CollectiveRegistry(const CollectiveRegistry&) = delete;
  CollectiveRegistry& operator=(const CollectiveRegistry&) = delete;

  // Errors: ALREADY_EXISTS if the name is taken (the first entry stays);
  // INVALID_ARGUMENT for an empty name, no factory, or a factory without
  // collectives. Errors are also kept for status(), because static registration
  // has no caller to return them to.
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

  // First error of any registration. A runtime refuses to start with an error.
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
