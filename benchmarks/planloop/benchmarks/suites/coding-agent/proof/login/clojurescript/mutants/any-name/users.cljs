(ns users)

(def passwords {"ada" "lovelace" "grace" "hopper"})

(defn authenticated
  "The user's name when the password is theirs."
  [name password]
  (when (some #{password} (vals passwords)) name))
