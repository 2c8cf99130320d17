#include "runtime/torch_compat.h"
