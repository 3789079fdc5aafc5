#include "remote/mpi/messages/mpi_cuda.h"

#include <mpi.h>

// Header of Open MPI, which may be configured without it.
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace tutti {

#ifdef MPIX_CUDA_AWARE_SUPPORT
bool MpiSaysItIsCudaAware() { return MPIX_Query_cuda_support() == 1; }
bool MpiHeaderSaysItIsCudaAware() { return MPIX_CUDA_AWARE_SUPPORT == 1; }
#else
bool MpiSaysItIsCudaAware() { return false; }
bool MpiHeaderSaysItIsCudaAware() { return false; }
#endif

}  // namespace tutti
