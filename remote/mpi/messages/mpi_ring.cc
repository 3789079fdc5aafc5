#include "remote/mpi/messages/mpi_ring.h"

#include <cstring>

namespace tutti {
namespace {

constexpr char kVariable[] = "coll_libnbc_iallreduce_algorithm";

// Sizes from which rings were faster. Measured on 23 November 2026 under Open
// MPI 4.1.4, with processes that share 2 processors of an Intel Xeon. Two
// members send as many messages as in a tree. More members send more messages,
// which pays from so many bytes for each member.
constexpr int64_t kLeastBytesOfTwo = int64_t{4} << 10;
constexpr int64_t kLeastBytesOfEach = int64_t{256} << 10;

// Finds the value with that name. Returns false if there is none.
bool FindValue(MPI_T_enum values, const char* wanted, int* value) {
  int num_values = 0;
  int no_name = 0;
  if (MPI_T_enum_get_info(values, &num_values, nullptr, &no_name) !=
      MPI_SUCCESS) {
    return false;
  }
  for (int i = 0; i < num_values; ++i) {
    char name[64] = {};
    int length = sizeof(name);
    if (MPI_T_enum_get_item(values, i, value, name, &length) == MPI_SUCCESS &&
        std::strcmp(name, wanted) == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

MpiRing::~MpiRing() {
  if (variable_ != MPI_T_CVAR_HANDLE_NULL) MPI_T_cvar_handle_free(&variable_);
  if (has_tools_) MPI_T_finalize();
}

bool MpiRing::IsFaster(int num_members, int64_t num_elements,
                       int64_t num_bytes) {
  if (num_elements < num_members) return false;
  if (num_members == 2) return num_bytes >= kLeastBytesOfTwo;
  return num_members > 2 && num_bytes >= num_members * kLeastBytesOfEach;
}

// Opens MPI's tool interface with MPI's present thread level: Open MPI takes
// over the level requested here.
void MpiRing::Open() {
  is_open_ = true;
  int level = 0;
  MPI_Query_thread(&level);
  has_tools_ = MPI_T_init_thread(level, &level) == MPI_SUCCESS;
  if (has_tools_) FindVariable();
}

void MpiRing::FindVariable() {
  int index = 0;
  if (MPI_T_cvar_get_index(kVariable, &index) != MPI_SUCCESS) return;
  int no_name = 0, no_text = 0, verbosity = 0, bind = 0, scope = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_enum values = MPI_T_ENUM_NULL;
  if (MPI_T_cvar_get_info(index, nullptr, &no_name, &verbosity, &type, &values,
                          nullptr, &no_text, &bind, &scope) != MPI_SUCCESS ||
      type != MPI_INT || values == MPI_T_ENUM_NULL ||
      !FindValue(values, "ring", &as_ring_) ||
      !FindValue(values, "ignore", &as_mpi_chooses_)) {
    return;
  }
  int count = 0, value = 0;
  if (MPI_T_cvar_handle_alloc(index, nullptr, &variable_, &count) !=
      MPI_SUCCESS) {
    variable_ = MPI_T_CVAR_HANDLE_NULL;
    return;
  }
  if (count != 1 || MPI_T_cvar_read(variable_, &value) != MPI_SUCCESS ||
      value != as_mpi_chooses_ || !Set(as_ring_) || !Set(as_mpi_chooses_)) {
    MPI_T_cvar_handle_free(&variable_);
    variable_ = MPI_T_CVAR_HANDLE_NULL;
  }
}

bool MpiRing::CanSet() {
  if (!is_open_) Open();
  return variable_ != MPI_T_CVAR_HANDLE_NULL;
}

bool MpiRing::Set(int value) {
  return MPI_T_cvar_write(variable_, &value) == MPI_SUCCESS;
}

MpiRing::Scope::Scope(MpiRing* ring) : ring_(ring) {
  if (ring_ != nullptr) ring_->Set(ring_->as_ring_);
}

MpiRing::Scope::~Scope() {
  if (ring_ != nullptr) ring_->Set(ring_->as_mpi_chooses_);
}

}  // namespace tutti
