#include "gpu/testing/fake_nccl_network.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tutti/reduction.h"

namespace tutti {
namespace {

uintptr_t NumberOf(NcclComm comm) {
  return reinterpret_cast<uintptr_t>(comm.handle);
}

NcclComm CommOf(uintptr_t number) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return {reinterpret_cast<void*>(number)};
}

bool IsSend(const NcclCall& call) { return call.op == NcclOp::kSend; }
bool IsRecv(const NcclCall& call) { return call.op == NcclOp::kRecv; }

// True if the calls of two ranks match.
bool Agree(const NcclCall& a, const NcclCall& b) {
  if (IsSend(a) || IsRecv(a)) {
    return a.dtype == b.dtype && a.num_elements == b.num_elements;
  }
  return a.op == b.op && a.dtype == b.dtype &&
         a.num_elements == b.num_elements && a.kind == b.kind &&
         a.peer == b.peer;
}

// True if a receive would overwrite bytes of an unfinished send.
bool WritesOverSends(const std::vector<NcclCall>& calls) {
  const auto begin = [](const void* buffer) {
    return reinterpret_cast<uintptr_t>(buffer);
  };
  for (const NcclCall& recv : calls) {
    for (const NcclCall& send : calls) {
      if (!IsRecv(recv) || !IsSend(send)) continue;
      const size_t element = SizeOf(recv.dtype);
      if (begin(recv.output) <
              begin(send.input) + send.num_elements * element &&
          begin(send.input) <
              begin(recv.output) + recv.num_elements * element) {
        return true;
      }
    }
  }
  return false;
}

// Reduces from the lowest rank to the highest.
Bytes Reduced(const NcclCall& call, const std::vector<const Bytes*>& inputs) {
  if (inputs.size() == 1) return *inputs[0];
  const size_t num_elements = inputs[0]->size() / SizeOf(call.dtype);
  Bytes sum = *inputs[0];
  std::vector<const uint8_t*> from;
  for (const Bytes* input : inputs) from.push_back(input->data());
  uint8_t* const into = sum.data();
  ReduceMany({.kind = call.kind,
              .dtype = call.dtype,
              .inputs = from,
              .outputs = absl::MakeConstSpan(&into, 1),
              .num_elements = num_elements});
  return sum;
}

// Returns the output of `rank`.
Bytes OutputOf(const NcclCall& call, const std::vector<const Bytes*>& inputs,
               int rank) {
  switch (call.op) {
    case NcclOp::kBroadcast:
      return *inputs[call.peer];
    case NcclOp::kAllGather: {
      Bytes all;
      for (const Bytes* input : inputs) {
        all.insert(all.end(), input->begin(), input->end());
      }
      return all;
    }
    case NcclOp::kReduceScatter: {
      const Bytes sum = Reduced(call, inputs);
      const auto part = static_cast<ptrdiff_t>(sum.size() / inputs.size());
      return Bytes(sum.begin() + rank * part, sum.begin() + (rank + 1) * part);
    }
    case NcclOp::kReduce:
      return rank == call.peer ? Reduced(call, inputs) : Bytes();
    default:
      return Reduced(call, inputs);
  }
}

}  // namespace

void FakeNcclNetwork::FailAll(absl::Status status) {
  MutexLock lock(&mu_);
  for (auto& [number, comm] : comms_) {
    comm.error = status;
    comm.hangs = true;
  }
}

FakeNcclNetwork::Counts FakeNcclNetwork::counts() const {
  MutexLock lock(&mu_);
  Counts counts = counts_;
  counts.living = static_cast<int>(comms_.size());
  return counts;
}

std::vector<std::string> FakeNcclNetwork::Mistakes() const {
  MutexLock lock(&mu_);
  return mistakes_;
}

absl::Status FakeNcclNetwork::Mistake(std::string mistake) {
  mistakes_.push_back(mistake);
  return absl::InvalidArgumentError(mistake);
}

absl::StatusOr<std::string> FakeNcclNetwork::NewId() {
  MutexLock lock(&mu_);
  if (!next_id_.ok()) return std::exchange(next_id_, absl::OkStatus());
  std::string id = absl::StrCat("fake id ", ++counts_.ids);
  id.resize(kNcclIdBytes);
  communicators_[id];
  return id;
}

absl::StatusOr<std::vector<NcclComm>> FakeNcclNetwork::Init(
    const std::string& id, int size, absl::Span<const NcclRank> ranks,
    const void* host) {
  MutexLock lock(&mu_);
  if (!next_init_.ok()) return std::exchange(next_init_, absl::OkStatus());
  const auto found = communicators_.find(id);
  if (found == communicators_.end()) return Mistake("an id that nobody made");
  Communicator& communicator = found->second;
  communicator.size = size;
  ++last_init_;
  std::vector<NcclComm> made;
  for (const NcclRank& rank : ranks) {
    if (!communicator.joined.insert(rank.rank).second) {
      return Mistake(absl::StrCat("rank ", rank.rank, " joins twice"));
    }
    if (!communicator.gpus.emplace(host, rank.gpu).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Duplicate GPU detected: rank ", rank.rank, ", GPU ", rank.gpu));
    }
    Comm& comm = comms_[++last_comm_];
    comm.id = id;
    comm.rank = rank.rank;
    comm.gpu = rank.gpu;
    comm.init = last_init_;
    comm.hangs = hang_inits_;
    comm.num_looks = num_looks_;
    ++counts_.inits;
    made.push_back(CommOf(last_comm_));
  }
  return made;
}

absl::StatusOr<FakeNcclNetwork::Comm*> FakeNcclNetwork::Find(NcclComm comm) {
  const auto found = comms_.find(NumberOf(comm));
  if (found != comms_.end()) return &found->second;
  return Mistake("there is no such communicator any more");
}

bool FakeNcclNetwork::IsConnecting(const Comm& comm) const {
  const Communicator& communicator = communicators_.at(comm.id);
  const auto num_launched = static_cast<int>(communicator.launched.size());
  return connects_at_first_launch_ && num_launched < communicator.size &&
         communicator.launched.contains(comm.rank);
}

absl::StatusOr<bool> FakeNcclNetwork::IsReady(NcclComm comm) {
  MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Comm* const found, Find(comm));
  Comm& end = *found;
  if (!end.error.ok()) return end.error;
  const Communicator& communicator = communicators_[end.id];
  if (end.hangs || IsConnecting(end) ||
      static_cast<int>(communicator.joined.size()) < communicator.size) {
    return false;
  }
  return end.num_looks-- <= 0;
}

int FakeNcclNetwork::SizeOf(NcclComm comm) {
  MutexLock lock(&mu_);
  const auto found = comms_.find(NumberOf(comm));
  return found == comms_.end() ? 0 : communicators_[found->second.id].size;
}

absl::Status FakeNcclNetwork::BeginGroup() {
  MutexLock lock(&mu_);
  ++counts_.launches;
  return std::exchange(next_launch_, absl::OkStatus());
}

absl::StatusOr<FakeNcclNetwork::UnitPtr> FakeNcclNetwork::Begin(
    const NcclPart& part, std::function<void()> wake) {
  MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Comm* const found, Find(part.comm));
  Comm& comm = *found;
  if (!comm.error.ok()) return comm.error;
  if (comm.gpu != part.stream.gpu) {
    return Mistake(absl::StrCat("a stream of GPU ", part.stream.gpu,
                                " for rank ", comm.rank, " on GPU ", comm.gpu));
  }
  if (comm.is_finalized) {
    return Mistake(
        absl::StrCat("rank ", comm.rank, " launches once it is finalized"));
  }
  if (comm.hangs || IsConnecting(comm) || comm.num_looks > 0) {
    return Mistake(
        absl::StrCat("rank ", comm.rank, " launches while not ready"));
  }
  if (WritesOverSends(part.calls)) {
    return Mistake(
        absl::StrCat("rank ", comm.rank, " receives into what it sends"));
  }
  comm.num_looks = num_looks_;
  communicators_[comm.id].launched.insert(comm.rank);
  auto unit = std::make_shared<Unit>();
  unit->comm = NumberOf(part.comm);
  unit->calls = part.calls;
  unit->wake = std::move(wake);
  unit->outputs.resize(part.calls.size());
  unit->num_missing = part.calls.size();
  for (const NcclCall& call : part.calls) {
    unit->numbers.push_back(IsSend(call)   ? comm.num_sent[call.peer]++
                            : IsRecv(call) ? comm.num_received[call.peer]++
                                           : comm.num_collectives++);
  }
  std::erase_if(comm.units, [](const auto& old) {
    const UnitPtr unit = old.lock();
    return unit == nullptr || unit->gate->load();
  });
  comm.units.push_back(unit);
  counts_.most = std::max(counts_.most, static_cast<int>(comm.units.size()));
  if (part.calls.empty()) Open(*unit);
  return unit;
}

void FakeNcclNetwork::Open(Unit& unit) {
  unit.gate->store(true);
  unit.wake();
}

void FakeNcclNetwork::Arrive(const UnitPtr& unit,
                             const std::vector<Bytes>& inputs) {
  MutexLock lock(&mu_);
  const auto found = comms_.find(unit->comm);
  if (unit->is_aborted || found == comms_.end()) return;
  Comm& comm = found->second;
  if (hang_launches_ || comm.hangs) return;
  for (size_t i = 0; i < unit->calls.size(); ++i) {
    const NcclCall& call = unit->calls[i];
    Place place = {comm.id, -1, -1, unit->numbers[i]};
    size_t size = static_cast<size_t>(communicators_[comm.id].size);
    int seat = comm.rank;
    if (IsSend(call) || IsRecv(call)) {
      std::get<1>(place) = IsSend(call) ? comm.rank : call.peer;
      std::get<2>(place) = IsSend(call) ? call.peer : comm.rank;
      seat = IsSend(call) ? 0 : 1;
      size = 2;
    }
    Meet(place, seat, size, {.unit = unit, .call = i, .input = inputs[i]});
  }
}

void FakeNcclNetwork::Meet(const Place& place, int rank, size_t size,
                           Waiting waiting) {
  Meeting& meeting = meetings_[place];
  meeting[rank] = std::move(waiting);
  if (meeting.size() < size) return;
  Meeting all = std::move(meeting);
  meetings_.erase(place);
  const auto call_of = [](const Waiting& one) -> const NcclCall& {
    return one.unit->calls[one.call];
  };
  std::vector<const Bytes*> inputs;
  for (const auto& [seat, one] : all) {
    // Differing calls hang: they never complete.
    if (!Agree(call_of(one), call_of(all.begin()->second))) return;
    inputs.push_back(&one.input);
  }
  std::vector<Bytes> outputs;
  for (const auto& [seat, one] : all) {
    const NcclCall& call = call_of(one);
    outputs.push_back(IsRecv(call)   ? *inputs[0]
                      : IsSend(call) ? Bytes()
                                     : OutputOf(call, inputs, seat));
  }
  auto output = outputs.begin();
  for (auto& [seat, one] : all) Deliver(one, std::move(*output++));
}

void FakeNcclNetwork::Deliver(Waiting& to, Bytes output) {
  Unit& unit = *to.unit;
  if (unit.is_aborted) return;
  unit.outputs[to.call] = std::move(output);
  if (--unit.num_missing == 0) Open(unit);
}

const std::vector<Bytes>* FakeNcclNetwork::OutputsOf(const Unit& unit) {
  MutexLock lock(&mu_);
  return unit.is_aborted ? nullptr : &unit.outputs;
}

absl::StatusOr<std::vector<FakeNcclNetwork::Comm*>> FakeNcclNetwork::FindAll(
    absl::Span<const NcclComm> comms) {
  std::vector<Comm*> ends;
  for (const NcclComm comm : comms) {
    ASSIGN_OR_RETURN(Comm* const found, Find(comm));
    ends.push_back(found);
  }
  return ends;
}

bool FakeNcclNetwork::AreAllOfOneInit(const std::vector<Comm*>& ends) const {
  if (ends.empty()) return true;
  const auto is_of_it = [&](const auto& entry) {
    return entry.second.init == ends[0]->init;
  };
  return std::count_if(comms_.begin(), comms_.end(), is_of_it) ==
         static_cast<ptrdiff_t>(ends.size());
}

absl::Status FakeNcclNetwork::Finalize(absl::Span<const NcclComm> comms) {
  MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const std::vector<Comm*> ends, FindAll(comms));
  for (Comm* const end : ends) {
    if (end->is_finalized) return Mistake("a rank is finalized twice");
    for (const auto& weak : end->units) {
      const UnitPtr unit = weak.lock();
      if (unit == nullptr || unit->gate->load()) continue;
      return Mistake("a communicator is finalized that a stream still uses");
    }
    end->is_finalized = true;
    end->hangs = hang_finalizes_ || !AreAllOfOneInit(ends);
    end->num_looks = num_looks_;
  }
  return absl::OkStatus();
}

absl::Status FakeNcclNetwork::Destroy(absl::Span<const NcclComm> comms) {
  MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const std::vector<Comm*> ends, FindAll(comms));
  for (const Comm* const end : ends) {
    if (!end->is_finalized || end->hangs || end->num_looks > 0) {
      return Mistake(absl::StrCat("rank ", end->rank,
                                  " is destroyed before it is finalized"));
    }
  }
  counts_.destroys += static_cast<int>(comms.size());
  Erase(comms);
  return absl::OkStatus();
}

absl::Status FakeNcclNetwork::Abort(absl::Span<const NcclComm> comms) {
  std::function<void()> wait;
  absl::Status status;
  {
    MutexLock lock(&mu_);
    wait = abort_wait_;
    status = AbortLocked(comms);
  }
  if (wait != nullptr) wait();
  return status;
}

absl::Status FakeNcclNetwork::AbortLocked(absl::Span<const NcclComm> comms) {
  ASSIGN_OR_RETURN(const std::vector<Comm*> ends, FindAll(comms));
  if (!AreAllOfOneInit(ends)) {
    return Mistake(
        absl::StrCat("rank ", ends[0]->rank,
                     " is aborted without all that were made with it"));
  }
  for (const Comm* const end : ends) {
    for (const auto& weak : end->units) {
      const UnitPtr unit = weak.lock();
      if (unit == nullptr || unit->gate->load()) continue;
      unit->is_aborted = true;
      Open(*unit);
    }
  }
  counts_.aborts += static_cast<int>(comms.size());
  Erase(comms);
  return absl::OkStatus();
}

void FakeNcclNetwork::Erase(absl::Span<const NcclComm> comms) {
  for (const NcclComm comm : comms) comms_.erase(NumberOf(comm));
}

}  // namespace tutti
