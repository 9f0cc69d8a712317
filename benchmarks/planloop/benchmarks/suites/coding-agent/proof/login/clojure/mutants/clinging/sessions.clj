(ns sessions)

(def names (atom {}))

(defn begin [name]
  (let [token (str (random-uuid))]
    (swap! names assoc token name)
    token))

(defn owner [token]
  (get @names token))

(defn end [token]
  (swap! names assoc "" (get @names token)))
